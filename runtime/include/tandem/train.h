// What a training loop shows and keeps beside its model: checkpoints, progress, logs, curves.
// Not part of <tandem/tandem.h>, which programs without a loop include too.
#ifndef TANDEM_TRAIN_H
#define TANDEM_TRAIN_H

#include <tandem/train/checkpoint.h>
#include <tandem/train/curves.h>
#include <tandem/train/logs.h>
#include <tandem/train/progress.h>

#endif  // TANDEM_TRAIN_H
