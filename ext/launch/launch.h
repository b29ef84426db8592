// What the module's Python face needs of launching besides the services of tdh_rt.h.
#ifndef TDH_LAUNCH_LAUNCH_H
#define TDH_LAUNCH_LAUNCH_H

#include <cstdint>

namespace trident_hook {

// Addresses of `int (void)` and `uint64_t (int device)` of a simulated driver, or 0, 0 to go back to CUDA.
void simulated_set(uintptr_t current_device, uintptr_t current_stream);

}  // namespace trident_hook

#endif
