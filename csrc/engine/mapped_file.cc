#include "engine/mapped_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/failure.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace intact::engine {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what) {
  throw Failure(INTACT_NO_FILE, "file '" + path + "': " + what);
}

}  // namespace

#if defined(_WIN32)
Bytes map_file(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) refuse(path, std::strerror(errno));
  std::string read;
  char piece[1 << 16];
  for (size_t n = 0; (n = std::fread(piece, 1, sizeof piece, file.get())) > 0;) read.append(piece, n);
  if (std::ferror(file.get()) != 0) refuse(path, "it cannot be read");
  return aligned_copy(read.data(), read.size());
}

void release_pages(std::span<const uint8_t>) {}  // nothing is mapped
#else
Bytes map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(path, std::strerror(errno));
  struct stat status{};
  const bool plain = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto bytes = plain ? static_cast<size_t>(status.st_size) : 0;
  void* const at = bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (!plain) refuse(path, "it is no file");
  if (bytes == 0) return {};
  if (at == MAP_FAILED) refuse(path, "it cannot be mapped");
  return {{static_cast<const uint8_t*>(at), bytes},
          std::shared_ptr<const void>(at, [bytes](const void* p) { ::munmap(const_cast<void*>(p), bytes); }),
          true};
}

void release_pages(std::span<const uint8_t> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + part.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}
#endif

Bytes borrow(const void* data, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(data) % 64 != 0) return aligned_copy(data, bytes);
  return {{static_cast<const uint8_t*>(data), bytes}, nullptr};
}

}  // namespace intact::engine
