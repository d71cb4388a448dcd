// Columns of a matrix in a mapped file. A read call a row would cost most of a microsecond for as little as 16 bytes; a copy
// out of a map costs a miss of the address cache. But a file that shrinks under its map kills the process with SIGBUS, so the
// copy is guarded: the signal ends it, and it says how far it came.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "codec.h"

namespace {

// initial-exec: reading it in a signal handler must not allocate.
[[gnu::tls_model("initial-exec")]] thread_local sigjmp_buf* guarded = nullptr;
struct sigaction before;
pthread_once_t installed = PTHREAD_ONCE_INIT;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (guarded) siglongjmp(*guarded, 1);
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  sigaction(signal, &before, nullptr);  // on return the access fails again, and what was to happen happens
}

void install() {
  struct sigaction ours = {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // left by a jump: the signal must not stay blocked
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, &before);
}

}  // namespace

int64_t fb_copy_columns(const uint8_t* mapped, int64_t width, int64_t stride, int64_t count, uint8_t* out) {
  pthread_once(&installed, install);
  volatile int64_t copied = 0;
  sigjmp_buf back;
  if (!sigsetjmp(back, 0)) {
    guarded = &back;
    for (int64_t row = 0; row < count; ++row) {
      memcpy(out + row * width, mapped + row * stride, width);
      copied = row + 1;
    }
  }
  guarded = nullptr;
  return copied;
}
