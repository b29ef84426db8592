/* Reads a CUBIN: its size, its architecture, and what `.nv.info.<kernel>` says of one kernel (parameter layout,
 * required block, cluster) together with its registers and static shared memory. Reads only; never keeps a pointer. */
#include <elf.h>
#include <string.h>

#include "internal.h"

#define EM_CUDA_MACHINE 190
#define SYSTEM_SHARED 1024 /* from sm_90 on a kernel's section includes what the system keeps; the driver hides it */

/* Attributes of `.nv.info` sections, as `cuobjdump -elf` names them. */
enum {
  EIFMT_SVAL = 0x04, /* the only format followed by a payload */
  EIATTR_REQNTID = 0x10,
  EIATTR_FRAME_SIZE = 0x11,
  EIATTR_KPARAM_INFO = 0x17,
  EIATTR_REGCOUNT = 0x2f,
  EIATTR_CTA_PER_CLUSTER = 0x3d,
};

typedef struct {
  const unsigned char *base;
  const Elf64_Ehdr *header;
  const Elf64_Shdr *sections;
  const char *names;
  size_t names_size;
} elf_view;

static uint16_t read_u16(const unsigned char *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint32_t read_u32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static bool is_cubin(const Elf64_Ehdr *header) {
  return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
         header->e_machine == EM_CUDA_MACHINE && header->e_shentsize == sizeof(Elf64_Shdr);
}

/* The driver is given no size, so the ELF tables have to tell. */
size_t sim_elf_size(const void *image) {
  const Elf64_Ehdr *header = image;
  if (!is_cubin(header)) return 0;
  size_t end = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  size_t segments = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
  if (segments > end) end = segments;
  const Elf64_Shdr *sections = (const void *)((const char *)image + header->e_shoff);
  if (header->e_shstrndx >= header->e_shnum || sections[header->e_shstrndx].sh_type != SHT_STRTAB) return 0;
  for (int i = 0; i < header->e_shnum; i++)
    if (sections[i].sh_type != SHT_NOBITS && sections[i].sh_offset + sections[i].sh_size > end)
      end = sections[i].sh_offset + sections[i].sh_size;
  return end;
}

/* e_flags moved in ABI version 8 (CUDA 12.8, sm_100): the architecture from bits 0-7 to 8-15, the "a" from bit 11 to 3. */
int sim_elf_arch(const void *image, bool *exact) {
  const Elf64_Ehdr *header = image;
  bool moved = header->e_ident[EI_ABIVERSION] >= 8;
  *exact = header->e_flags & (moved ? 0x8 : 0x800);
  return (header->e_flags >> (moved ? 8 : 0)) & 0xff;
}

static void open_view(elf_view *view, const unsigned char *image) {
  view->base = image;
  view->header = (const void *)image;
  view->sections = (const void *)(image + view->header->e_shoff);
  const Elf64_Shdr *names = &view->sections[view->header->e_shstrndx];
  view->names = (const char *)image + names->sh_offset;
  view->names_size = names->sh_size;
}

/* The section called `prefix` + `name`, or NULL. */
static const Elf64_Shdr *find_section(const elf_view *view, const char *prefix, const char *name) {
  size_t n = strlen(prefix);
  for (int i = 0; i < view->header->e_shnum; i++) {
    if (view->sections[i].sh_name >= view->names_size) continue;
    const char *candidate = view->names + view->sections[i].sh_name;
    if (strncmp(candidate, prefix, n) == 0 && strcmp(candidate + n, name) == 0) return &view->sections[i];
  }
  return NULL;
}

typedef void (*attribute_fn)(void *state, unsigned attribute, const unsigned char *payload, unsigned size);

static void each_attribute(const elf_view *view, const Elf64_Shdr *section, attribute_fn visit, void *state) {
  const unsigned char *at = view->base + section->sh_offset, *end = at + section->sh_size;
  while (at + 4 <= end) {
    unsigned size = at[0] == EIFMT_SVAL ? read_u16(at + 2) : 0;
    if (at + 4 + size > end) return;
    visit(state, at[1], at + 4, size);
    at += 4 + size;
  }
}

static void read_dims(uint32_t out[3], const unsigned char *payload) {
  for (int i = 0; i < 3; i++)
    out[i] = read_u32(payload + 4 * i);
}

static void visit_kernel(void *state, unsigned attribute, const unsigned char *payload, unsigned size) {
  sim_kernel_info *info = state;
  if (size < 12) return;
  switch (attribute) {
    case EIATTR_KPARAM_INFO: {
      unsigned ordinal = read_u16(payload + 4);
      if (ordinal >= SIM_MAX_PARAMS) return;
      info->params[ordinal] = (sim_param){.offset = read_u16(payload + 6), .size = read_u32(payload + 8) >> 18};
      if ((int)ordinal >= info->n_params) info->n_params = ordinal + 1;
      return;
    }
    case EIATTR_REQNTID:
      read_dims(info->required_block, payload);
      return;
    case EIATTR_CTA_PER_CLUSTER:
      read_dims(info->cluster, payload);
      return;
  }
}

typedef struct {
  sim_kernel_info *info;
  uint32_t symbol;
} module_visit;

static void visit_module(void *state, unsigned attribute, const unsigned char *payload, unsigned size) {
  module_visit *visit = state;
  if (size < 8 || read_u32(payload) != visit->symbol) return;
  if (attribute == EIATTR_REGCOUNT)
    visit->info->registers = read_u32(payload + 4);
  else if (attribute == EIATTR_FRAME_SIZE)
    visit->info->local_bytes = read_u32(payload + 4);
}

/* Registers are handed out in units of 256 to a warp, warps in fours: what a block can have at most. */
static uint32_t threads_by_registers(int registers) {
  if (registers == 0) return 1024;
  uint32_t of_a_warp = (registers * 32 + 255) / 256 * 256;
  uint32_t threads = 65536 / of_a_warp / 4 * 4 * 32;
  return threads < 1024 ? threads : 1024;
}

bool sim_elf_kernel(const unsigned char *image, const char *name, sim_kernel_info *info) {
  elf_view view;
  open_view(&view, image);
  const Elf64_Shdr *text = find_section(&view, ".text.", name);
  if (text == NULL) return false;
  memset(info, 0, sizeof *info);
  const Elf64_Shdr *section = find_section(&view, ".nv.info.", name);
  if (section != NULL) each_attribute(&view, section, visit_kernel, info);
  section = find_section(&view, ".nv.info", "");
  if (section != NULL) each_attribute(&view, section, visit_module, &(module_visit){info, text->sh_info & 0xffffff});
  section = find_section(&view, ".nv.shared.", name);
  if (section != NULL) info->static_shared = (int)section->sh_size;
  bool exact;
  if (sim_elf_arch(image, &exact) >= 90 && info->static_shared >= SYSTEM_SHARED) info->static_shared -= SYSTEM_SHARED;
  info->max_threads = threads_by_registers(info->registers);
  return true;
}
