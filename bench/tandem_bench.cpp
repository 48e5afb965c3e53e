// tandem-bench: the worker of bench/peers.
#include "bench/worker.h"

int main(int argc, char** argv) { return bench::run_worker(argc, argv, bench::build); }
