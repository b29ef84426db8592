/* Integer, float and scalar helpers of generated modules: Python's semantics on 64-bit values, every overflow noted.
 * Plain C, static inline, no state. An overflow sets *ovf; the caller turns that into a miss (before the first
 * effect) or an OverflowError (after it). */
#ifndef TDH_NUM_H
#define TDH_NUM_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "tdh_interrupt.h"

static inline int64_t tdh_add(int64_t a, int64_t b, int *ovf) {
  int64_t r;
  *ovf |= __builtin_add_overflow(a, b, &r);
  return r;
}
static inline int64_t tdh_sub(int64_t a, int64_t b, int *ovf) {
  int64_t r;
  *ovf |= __builtin_sub_overflow(a, b, &r);
  return r;
}
static inline int64_t tdh_mul(int64_t a, int64_t b, int *ovf) {
  int64_t r;
  *ovf |= __builtin_mul_overflow(a, b, &r);
  return r;
}
/* Python's floor division and modulo; division by zero and INT64_MIN / -1 are noted as overflow. */
static inline int64_t tdh_floordiv(int64_t a, int64_t b, int *ovf) {
  if (b == 0 || (a == INT64_MIN && b == -1)) {
    *ovf = 1;
    return 0;
  }
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
static inline int64_t tdh_mod(int64_t a, int64_t b, int *ovf) {
  if (b == 0 || (a == INT64_MIN && b == -1)) {
    *ovf |= b == 0;
    return 0;
  }
  int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
static inline int64_t tdh_pow(int64_t a, int64_t n, int *ovf) {
  int64_t r = 1;
  if (n < 0) {
    *ovf = 1;
    return 0;
  }
  for (int64_t i = 0; i < n && !*ovf; i++)
    r = tdh_mul(r, a, ovf);
  return r;
}
static inline int64_t tdh_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t tdh_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Floats in the middle of expressions: finite doubles, the very ones that Python has. What would be another one, or none
 * (an int that a double may not hold, a division by zero, an infinite quotient, the root of a negative), is noted as
 * overflow. There is no product: a compiler may fuse one with an addition behind it, and round once where Python rounds
 * twice. */
static inline double tdh_float_of(int64_t a, int *ovf) {
  const int64_t most = INT64_C(1) << 53;
  *ovf |= a < -most || a > most;
  return (double)a;
}
/* Also of two ints, after tdh_float_of: Python rounds their quotient to the nearest double, as the machine does. */
static inline double tdh_float_div(double a, double b, int *ovf) {
  double q = a / b;
  *ovf |= !__builtin_isfinite(q); /* as it is with b == 0, whatever a is */
  return q;
}
static inline double tdh_float_sqrt(double a, int *ovf) {
  if (a < 0) {
    *ovf = 1;
    return 0;
  }
  return __builtin_sqrt(a); /* correctly rounded, here and in Python */
}
static inline double tdh_float_min(double a, double b) {
  return a < b ? a : b;
}
static inline double tdh_float_max(double a, double b) {
  return a > b ? a : b;
}
/* To an int; one that does not fit is noted as overflow. What has a fraction is below 2**52, so +-1 cannot overflow. */
static inline int64_t tdh_float_trunc(double a, int *ovf) {
  const double end = 9223372036854775808.0; /* 2**63 */
  if (!(a >= -end && a < end)) {
    *ovf = 1;
    return 0;
  }
  return (int64_t)a;
}
static inline int64_t tdh_float_floor(double a, int *ovf) {
  int64_t whole = tdh_float_trunc(a, ovf);
  return whole - ((double)whole > a);
}
static inline int64_t tdh_float_ceil(double a, int *ovf) {
  int64_t whole = tdh_float_trunc(a, ovf);
  return whole + ((double)whole < a);
}
/* To the nearest; from halfway to the even one. The fraction is exact. */
static inline int64_t tdh_float_round(double a, int *ovf) {
  int64_t whole = tdh_float_trunc(a, ovf);
  double fraction = a - (double)whole;
  int odd = (int)(whole & 1);
  if (fraction > 0.5 || (odd && fraction == 0.5)) return whole + 1;
  if (fraction < -0.5 || (odd && fraction == -0.5)) return whole - 1;
  return whole;
}

/* Whether `known`, a set of bytes, has the n numbers. Nothing is raised: without memory the answer is no. */
static inline int tdh_key_known(PyObject *known, const int64_t *key, int n) {
  PyObject *bytes = PyBytes_FromStringAndSize((const char *)key, n * (Py_ssize_t)sizeof *key);
  int found = bytes == NULL ? -1 : PySet_Contains(known, bytes);
  if (found < 0) tdh_error_drop();
  Py_XDECREF(bytes);
  return found == 1;
}

/* An exact int (no bool, no subclass) that fits 64 bits: 1 and *out. Anything else: 0, no exception. */
static inline int tdh_int_read(PyObject *o, int64_t *out) {
  int ovf = 0;
  if (o == NULL || !PyLong_CheckExact(o)) return 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &ovf);
  if (ovf != 0) return 0;
  *out = (int64_t)v;
  return 1;
}
static inline int tdh_int_is(PyObject *o, int64_t want) {
  int64_t v;
  return tdh_int_read(o, &v) && v == want;
}
static inline uint64_t tdh_double_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}
/* Of an exact float. */
static inline uint64_t tdh_float_bits(PyObject *o) {
  return tdh_double_bits(PyFloat_AS_DOUBLE(o));
}
static inline int tdh_float_is_finite(PyObject *o) {
  return o != NULL && PyFloat_CheckExact(o) && __builtin_isfinite(PyFloat_AS_DOUBLE(o));
}
/* Same bits: -0.0 is not 0.0, and a NaN equals only the same NaN. */
static inline int tdh_float_is(PyObject *o, double want) {
  return o != NULL && PyFloat_CheckExact(o) && tdh_float_bits(o) == tdh_double_bits(want);
}
/* Length of a tuple, list or dict, -1 of anything else. */
static inline Py_ssize_t tdh_length(PyObject *o) {
  if (PyTuple_Check(o)) return PyTuple_GET_SIZE(o);
  if (PyList_Check(o)) return PyList_GET_SIZE(o);
  return PyDict_Check(o) ? PyDict_GET_SIZE(o) : -1;
}
/* Length of a str or bytes, and what stands at a place in it; -1 of anything else and behind its end. */
static inline Py_ssize_t tdh_text_length(PyObject *o) {
  if (PyUnicode_CheckExact(o)) return PyUnicode_GET_LENGTH(o);
  return PyBytes_CheckExact(o) ? PyBytes_GET_SIZE(o) : -1;
}
static inline int64_t tdh_text_at(PyObject *o, Py_ssize_t place) {
  if (place >= tdh_text_length(o)) return -1;
  return PyUnicode_CheckExact(o) ? (int64_t)PyUnicode_READ_CHAR(o, place) : (unsigned char)PyBytes_AS_STRING(o)[place];
}
static inline int tdh_equals(PyObject *o, PyObject *want);

/* Another number after any change of a class, of its bases, or of its metaclass, whose change leaves the class's own tag
 * alone; 0 where one of the tags is not valid. */
static inline uint64_t tdh_class_version(PyObject *type) {
  const uint64_t own = ((PyTypeObject *)type)->tp_version_tag, meta = Py_TYPE(type)->tp_version_tag;
  return own == 0 || meta == 0 ? 0 : meta << 32 | own;
}

/* Sets that are equal already: the same values in the same order, for code that goes through them. {0, 8} and {8, 0} are
 * equal, and which member comes first depends on which was added first. Sets in guards are small. */
static int tdh_members_equal(PyObject *o, PyObject *want) {
  PyObject *members = PySequence_List(o), *wanted = members ? PySequence_List(want) : NULL;
  int same = wanted != NULL && tdh_equals(members, wanted);
  Py_XDECREF(members);
  Py_XDECREF(wanted);
  if (PyErr_Occurred()) tdh_error_drop();
  return same;
}
static int tdh_slice_equals(PyObject *o, PyObject *want) {
  PySliceObject *a = (PySliceObject *)o, *b = (PySliceObject *)want;
  return tdh_equals(a->start, b->start) && tdh_equals(a->stop, b->stop) && tdh_equals(a->step, b->step);
}
/* The same value as `want` for constants (numbers, str, bytes, dtype, device, enum, and containers of those): exact
 * type, then equality; floats and complex numbers by their bits, containers member by member, since (1, 2) == (1, 2.0).
 * 1 or 0; an exception raised by a comparison counts as 0 and is gone, or put off (tdh_interrupt.h). */
static inline int tdh_equals(PyObject *o, PyObject *want) {
  if (o == want) return 1;
  if (o == NULL || Py_TYPE(o) != Py_TYPE(want)) return 0;
  if (PyFloat_CheckExact(want)) return tdh_float_is(o, PyFloat_AS_DOUBLE(want));
  if (PyComplex_CheckExact(want)) {
    Py_complex a = PyComplex_AsCComplex(o), b = PyComplex_AsCComplex(want);
    return memcmp(&a, &b, sizeof a) == 0;
  }
  if (PySlice_Check(want)) return tdh_slice_equals(o, want);
  if (PyList_CheckExact(want)) {
    if (PyList_GET_SIZE(o) != PyList_GET_SIZE(want)) return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o) && i < PyList_GET_SIZE(want); i++)
      if (!tdh_equals(PyList_GET_ITEM(o, i), PyList_GET_ITEM(want, i))) return 0;
    return 1;
  }
  if (PyTuple_Check(want)) {
    if (PyTuple_GET_SIZE(o) != PyTuple_GET_SIZE(want)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(want); i++)
      if (!tdh_equals(PyTuple_GET_ITEM(o, i), PyTuple_GET_ITEM(want, i))) return 0;
    return 1;
  }
  int r = PyObject_RichCompareBool(o, want, Py_EQ);
  if (r < 0) {
    tdh_error_drop();
    return 0;
  }
  return r && PyAnySet_CheckExact(want) ? tdh_members_equal(o, want) : r;
}

static inline int tdh_is_plain_constant(PyObject *o) {
  return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) ||
         PyUnicode_CheckExact(o) || PyBytes_CheckExact(o);
}
/* `o` is a set of the exact type of `want`, equal to it, and has plain constants only: every question that is answered by
 * hashing and comparing has the answer that it has for `want`. Not the order of the members, nor 1 for True. */
static inline int tdh_same_members(PyObject *o, PyObject *want) {
  if (o == want) return 1;
  if (o == NULL || Py_TYPE(o) != Py_TYPE(want) || PySet_GET_SIZE(o) != PySet_GET_SIZE(want)) return 0;
  PyObject *members = PySequence_List(o);
  int plain = members != NULL;
  for (Py_ssize_t i = 0; plain && i < PyList_GET_SIZE(members); i++)
    plain = tdh_is_plain_constant(PyList_GET_ITEM(members, i));
  Py_XDECREF(members);
  int same = plain ? PyObject_RichCompareBool(o, want, Py_EQ) : 0;
  if (PyErr_Occurred()) tdh_error_drop();
  return same == 1;
}

#endif
