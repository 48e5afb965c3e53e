// The only file with ORC. One ExecutionSession serves the process; every loaded object is a
// JITDylib of its own in it, removed (and its pages unmapped) when the Code is destroyed. Linking
// runs on the calling thread.
#include "codegen/jit/jit.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>

#include <atomic>

#include "codegen/jit/in_llvm.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

namespace orc = llvm::orc;

// ORC hands the cause of a failed link to a reporter and only "failed to materialize" to the
// caller. Linking is synchronous, so the cause arrives on the thread that asked, while its Listener
// lives.
class Listener {
 public:
  Listener() { current = this; }
  ~Listener() { current = nullptr; }
  Listener(const Listener&) = delete;

  static void report(llvm::Error error) {
    const std::string message = llvm::toString(std::move(error));
    if (current) current->causes_ += "; " + message;
  }
  static std::string causes() { return current ? current->causes_ : ""; }

 private:
  static thread_local Listener* current;
  std::string causes_;
};

thread_local Listener* Listener::current = nullptr;

template <typename T>
T take(llvm::Expected<T> value, const char* what) {
  TANDEM_CHECK(bool(value),
               std::string(what) + ": " + llvm::toString(value.takeError()) + Listener::causes());
  return std::move(*value);
}

void take(llvm::Error error, const char* what) {
  TANDEM_CHECK(!error,
               std::string(what) + ": " + llvm::toString(std::move(error)) + Listener::causes());
}

std::unique_ptr<orc::ExecutorProcessControl> this_process() {
  auto memory = take(llvm::jitlink::InProcessMemoryManager::Create(), "jit memory manager");
  return take(orc::SelfExecutorProcessControl::Create(
                  std::make_shared<orc::SymbolStringPool>(),
                  std::make_unique<orc::InPlaceTaskDispatcher>(), std::move(memory)),
              "jit process control");
}

// The documented singleton of this folder.
struct Session {
  orc::ExecutionSession execution{this_process()};
  orc::ObjectLinkingLayer linker{execution};
  std::atomic<uint64_t> loaded = 0;

  Session() { execution.setErrorReporter(Listener::report); }

  // Never destroyed: a Code may live in a static object that is destroyed later.
  static Session& get() {
    static Session* session = new Session;
    return *session;
  }
};

}  // namespace

struct Code::Library {
  std::vector<orc::JITDylibSP> dylibs;  // one, as ORC wants it to be removed, with no memory

  Library() { dylibs.reserve(1); }
  ~Library() {
    if (!dylibs.empty())
      llvm::consumeError(Session::get().execution.removeJITDylibs(std::move(dylibs)));
  }
};

bool Target::has(std::string_view feature) const {
  std::string_view rest = features;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (item.size() == feature.size() + 1 && item[0] == '+' && item.substr(1) == feature)
      return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

Code::Code() = default;
Code::Code(Code&&) noexcept = default;
Code& Code::operator=(Code&&) noexcept = default;
Code::~Code() = default;

Code Code::load(std::string_view object, std::span<const std::string> entries) {
  Session& session = Session::get();
  const Listener listener;
  const std::string name = "code." + std::to_string(session.loaded++);
  Code code;
  code.library_ = std::make_unique<Library>();
  code.library_->dylibs.push_back(&session.execution.createBareJITDylib(name));
  orc::JITDylib& dylib = *code.library_->dylibs[0];
  auto bytes =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), name);
  take(in_llvm([&] { return session.linker.add(dylib, std::move(bytes)); }), "jit object");
  for (const std::string& entry : entries) {
    const orc::SymbolStringPtr name_of_entry = session.execution.intern(entry);
    const auto symbol = take(
        in_llvm([&] { return session.execution.lookup({&dylib}, name_of_entry); }), "jit link");
    code.addresses_.push_back(symbol.getAddress().toPtr<void*>());
  }
  return code;
}

}  // namespace tandem::jit
