# What generated modules see of the C ABI (tdh_rt.h, tdh_scm.h, tdh_num.h) and of CPython.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t


cdef extern from "Python.h":
    ctypedef struct PyObject
    ctypedef struct PyTypeObject:
        PyObject* tp_mro
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    PyTypeObject* Py_TYPE(PyObject*) nogil
    void Py_INCREF(PyObject*) nogil
    void Py_DECREF(PyObject*) nogil
    void Py_XDECREF(PyObject*) nogil
    PyObject* PyFloat_FromDouble(double)
    PyObject* PyBool_FromLong(long)
    PyObject* PyErr_Occurred() nogil
    int PyTuple_Check(PyObject*) nogil
    int PyList_Check(PyObject*) nogil
    int PyDict_Check(PyObject*) nogil
    int PyFunction_Check(PyObject*) nogil
    Py_ssize_t PyTuple_GET_SIZE(PyObject*) nogil
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t) nogil
    void PyTuple_SET_ITEM(PyObject*, Py_ssize_t, PyObject*) nogil
    PyObject* PyTuple_New(Py_ssize_t) nogil
    Py_ssize_t PyList_GET_SIZE(PyObject*) nogil
    PyObject* PyList_GET_ITEM(PyObject*, Py_ssize_t) nogil
    void PyList_SET_ITEM(PyObject*, Py_ssize_t, PyObject*) nogil
    PyObject* PyList_New(Py_ssize_t) nogil
    PyObject* PyDict_New() nogil
    int PyDict_SetItem(PyObject*, PyObject*, PyObject*) nogil
    Py_ssize_t PyDict_Size(PyObject*) nogil
    int PyDict_Contains(PyObject*, PyObject*) nogil
    PyObject* PyDict_GetItemWithError(PyObject*, PyObject*) nogil
    int PyDict_Next(PyObject*, Py_ssize_t*, PyObject**, PyObject**) nogil
    int PySet_Add(PyObject*, PyObject*) nogil
    PyObject* PySet_New(PyObject*) nogil
    PyObject* PySlice_New(PyObject*, PyObject*, PyObject*) nogil
    PyObject* PyCell_GET(PyObject*) nogil
    PyObject* PyFunction_GetCode(PyObject*) nogil
    PyObject* PyFunction_GetGlobals(PyObject*) nogil
    PyObject* PyFunction_GET_GLOBALS(PyObject*) nogil
    PyObject* PyFunction_GetClosure(PyObject*) nogil
    PyObject* PyFunction_GetDefaults(PyObject*) nogil
    PyObject* PyFunction_GetKwDefaults(PyObject*) nogil
    PyObject* PyLong_FromLongLong(long long) nogil
    PyObject* PyObject_CallOneArg(PyObject*, PyObject*) nogil
    PyObject* PyObject_CallNoArgs(PyObject*) nogil
    PyObject* PyObject_Call(PyObject*, PyObject*, PyObject*) nogil
    PyObject* PyObject_GetItem(PyObject*, PyObject*) nogil
    int PyObject_SetItem(PyObject*, PyObject*, PyObject*) nogil
    int PyObject_DelItem(PyObject*, PyObject*) nogil
    int PyObject_SetAttr(PyObject*, PyObject*, PyObject*) nogil
    PyObject* PyObject_GetAttr(PyObject*, PyObject*) nogil
    int PyObject_IsTrue(PyObject*) nogil
    Py_ssize_t PyObject_Size(PyObject*) nogil
    double PyFloat_AS_DOUBLE(PyObject*) nogil
    int PyFloat_CheckExact(PyObject*) nogil


cdef extern from "tdh_scm.h":
    enum:
        TDH_HIT
        TDH_MISS
        TDH_ERROR
        TDH_BYPASS
    ctypedef struct tdh_call:
        PyObject** locals
        PyObject* func
        int32_t spec
        int32_t guard


cdef extern from "tdh_rt.h":
    ctypedef struct tdh_tensor:
        void* impl
        const int64_t* sizes
        const int64_t* strides
        int64_t storage_offset
        uint64_t keys
        int32_t ndim
        int16_t dtype
        int8_t device_type
        int8_t device_index
        uint8_t requires_grad
        uint8_t layout
        uint8_t flags
    ctypedef struct tdh_state:
        uint64_t word[8]
    ctypedef int (*tdh_specialization_fn)(tdh_call*, const tdh_state*, PyObject**) noexcept
    ctypedef struct tdh_kernel:
        const unsigned char* cubin
        uint64_t cubin_size
        const char* name
        uint32_t shared
        uint32_t threads
        uint32_t num_ctas
        uint32_t flags
        uint32_t scratch_size[2]
        uint32_t scratch_align[2]
    ctypedef struct tdh_launch_env:
        void* stream
        int32_t device
        int32_t device_type
    ctypedef struct tdh_tensor_map:
        void* address
        int64_t sizes[5]
        int64_t strides[5]
        uint32_t box[5]
        uint8_t rank
        uint8_t data_type
        uint8_t swizzle
        uint8_t element_size
        uint8_t nan_fill
    ctypedef struct tdh_step:
        pass
    ctypedef struct tdh_rt_api:
        uint32_t abi
        uint32_t size
        int (*tensor_read)(PyObject*, tdh_tensor*) noexcept
        uint64_t (*keys_apply)(uint64_t, const tdh_state*) noexcept
        int (*state_read)(tdh_state*) noexcept
        void* (*empty_strided)(int32_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t) noexcept
        void* (*data_ptr)(void*) noexcept
        void (*retain)(void*) noexcept
        void (*release)(void*) noexcept
        PyObject* (*wrap)(void*) noexcept
        void* (*unwrap)(PyObject*) noexcept
        int (*handle_read)(void*, tdh_tensor*) noexcept
        int (*op_call)(void*, void**, const int64_t*, const double*, void**, int64_t*, double*) noexcept
        int (*launch_env)(tdh_launch_env*) noexcept
        int (*launch)(tdh_kernel*, const tdh_launch_env*, int64_t, int64_t, int64_t, void**) noexcept
        int (*launch_python)(PyObject*, void**, int32_t, const int64_t*, int32_t) noexcept
        int (*attr_find)(PyObject*, PyObject*, PyObject**) noexcept
        PyObject* (*dict_of)(PyObject*) noexcept
        int (*env_check)(void*) noexcept
        void (*env_stale)(void*) noexcept
        int (*tensor_map)(const tdh_tensor_map*, void*) noexcept
        int (*launch_scratch)(tdh_kernel*, const tdh_launch_env*, int64_t, int64_t, int64_t, void**, void**) noexcept
        int (*env_recheck)(void*, PyObject*, tdh_call*, const tdh_step*, int32_t, PyObject**, uint64_t*) noexcept
        int (*all_distinct)(PyObject**, int32_t) noexcept
        int (*env_has)(void*, PyObject**, int32_t) noexcept
        PyObject* (*space_of)(PyObject*) noexcept
        PyObject* (*attr_stored)(PyObject*, PyObject*) noexcept


cdef extern from "tdh_num.h":
    void PyErr_Clear "tdh_error_drop"() nogil  # what was sent to the program is put off, not lost
    bint tdh_error_left()
    bint tdh_key_known(PyObject*, const int64_t*, int)
    int64_t tdh_add(int64_t, int64_t, int*) nogil
    int64_t tdh_sub(int64_t, int64_t, int*) nogil
    int64_t tdh_mul(int64_t, int64_t, int*) nogil
    int64_t tdh_floordiv(int64_t, int64_t, int*) nogil
    int64_t tdh_mod(int64_t, int64_t, int*) nogil
    int64_t tdh_pow(int64_t, int64_t, int*) nogil
    int64_t tdh_min(int64_t, int64_t) nogil
    int64_t tdh_max(int64_t, int64_t) nogil
    double tdh_float_of(int64_t, int*) nogil
    double tdh_float_div(double, double, int*) nogil
    double tdh_float_sqrt(double, int*) nogil
    double tdh_float_min(double, double) nogil
    double tdh_float_max(double, double) nogil
    int64_t tdh_float_trunc(double, int*) nogil
    int64_t tdh_float_floor(double, int*) nogil
    int64_t tdh_float_ceil(double, int*) nogil
    int64_t tdh_float_round(double, int*) nogil
    int tdh_int_read(PyObject*, int64_t*) nogil
    int tdh_int_is(PyObject*, int64_t) nogil
    int tdh_float_is(PyObject*, double) nogil
    int tdh_equals(PyObject*, PyObject*) nogil
    uint64_t tdh_class_version(PyObject*) nogil
    int tdh_same_members(PyObject*, PyObject*) nogil
    uint64_t tdh_float_bits(PyObject*) nogil
    uint64_t tdh_double_bits(double) nogil
    int tdh_float_is_finite(PyObject*) nogil
    Py_ssize_t tdh_length(PyObject*) nogil
    Py_ssize_t tdh_text_length(PyObject*) nogil
    int64_t tdh_text_at(PyObject*, Py_ssize_t) nogil
