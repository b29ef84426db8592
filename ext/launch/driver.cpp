// The driver function table, see driver.h. Every pointer starts at a stub that looks the function up, replaces the
// pointer and calls on; a function that is absent leaves a stub that returns an error, so that no call is ever null.
#include "launch/driver.h"

#include <dlfcn.h>

namespace trident_hook::driver {
namespace {

// The library stays open. Tests put a simulated libcuda.so.1 into the process first; dlopen finds it by its SONAME.
void *library() {
  static void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <typename Tag, typename... P>
struct entry {
  using pointer = result (*)(P...);

  static result absent_library(P...) { return library_absent; }
  static result absent_function(P...) { return function_absent; }
  // Two threads may both resolve: they store the same pointer.
  static result resolve(P... parameters) {
    pointer found = absent_library;
    if (library() != nullptr) {
      found = reinterpret_cast<pointer>(dlsym(library(), Tag::name));
      if (found == nullptr) found = absent_function;
    }
    *Tag::slot() = found;
    return found(parameters...);
  }
};

#define TDH_TAG(function_name, since, ...)                           \
  struct function_name##_tag {                                       \
    static constexpr const char *name = #function_name;              \
    static result (**slot())(__VA_ARGS__) { return &function_name; } \
  };
TDH_DRIVER_FUNCTIONS(TDH_TAG)
#undef TDH_TAG

}  // namespace

#define TDH_DEFINE(name, since, ...) result (*name)(__VA_ARGS__) = entry<name##_tag, __VA_ARGS__>::resolve;
TDH_DRIVER_FUNCTIONS(TDH_DEFINE)
#undef TDH_DEFINE

const char *error_name(result code) {
  const char *name = nullptr;
  if (code == library_absent) return "TRIDENT_HOOK_NO_DRIVER";
  if (code == function_absent) return "TRIDENT_HOOK_DRIVER_TOO_OLD";
  if (cuGetErrorName(code, &name) != success || name == nullptr) return "unknown error";
  return name;
}

const char *error_text(result code) {
  const char *text = nullptr;
  if (code == library_absent) return "libcuda.so.1 could not be opened";
  if (code == function_absent) return "the CUDA driver is too old: it has no such function";
  if (cuGetErrorString(code, &text) != success || text == nullptr) return "unknown error";
  return text;
}

}  // namespace trident_hook::driver
