/* Assertions of a debug build (TRIDENT_HOOK_BUILD_DEBUG=1): what must hold of our own state. Nothing in another build. */
#ifndef TDH_COMMON_ASSERT_H
#define TDH_COMMON_ASSERT_H

#ifdef TDH_DEBUG
#include <Python.h>
#define TDH_TEXT_OF(x) #x
#define TDH_TEXT(x) TDH_TEXT_OF(x)
#define TDH_ASSERT(holds) ((holds) ? (void)0 : Py_FatalError(__FILE__ ":" TDH_TEXT(__LINE__) ": " #holds))
#else
#define TDH_ASSERT(holds) ((void)sizeof(!!(holds)))
#endif

#endif
