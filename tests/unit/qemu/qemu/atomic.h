/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What queue.c of the device needs of QEMU's header of this name. */

#ifndef QEMU_ATOMIC_H
#define QEMU_ATOMIC_H

#define qatomic_read(p)             __atomic_load_n(p, __ATOMIC_RELAXED)
#define qatomic_set(p, v)           __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define qatomic_load_acquire(p)     __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define qatomic_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define qatomic_cmpxchg(p, old, new) \
    ({ \
        __typeof__(*(p)) expected = (old); \
        __atomic_compare_exchange_n(p, &expected, new, false, \
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        expected; \
    })

#endif /* QEMU_ATOMIC_H */
