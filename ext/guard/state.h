// The torch state as words: see state.cpp.
#ifndef TDH_GUARD_STATE_H
#define TDH_GUARD_STATE_H

namespace trident_hook {

// The parts of the word of flags, from its lowest bit on.
struct state_flag {
  const char *name;
  int bits;
};
constexpr state_flag state_flags[] = {
    {"grad mode", 1},
    {"forward-mode grad", 1},
    {"inference mode", 1},
    {"autocast cache", 1},
    {"deterministic algorithms", 1},
    {"deterministic algorithms, warnings only", 1},
    {"deterministic fill of uninitialized memory", 1},
    {"TF32 in matrix products", 1},
    {"TF32 in convolutions", 1},
    {"reduced precision of fp16 sums", 2},
    {"reduced precision of bf16 sums", 2},
};

}  // namespace trident_hook

#endif
