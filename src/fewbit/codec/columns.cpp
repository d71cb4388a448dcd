// Columns of a matrix in a file: a short read a row, which costs a third of a microsecond from the page cache. A memory map
// would need none, but a file that shrinks under a map kills the process.
#include <errno.h>
#include <unistd.h>

#include "codec.h"

int64_t fb_read_columns(int32_t file, int64_t offset, int64_t width, int64_t stride, int64_t count,
                        uint8_t* out) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t done = 0; done < width;) {
      const int64_t got = pread(file, out + row * width + done, width - done, offset + row * stride + done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return row;
      done += got;
    }
  return count;
}
