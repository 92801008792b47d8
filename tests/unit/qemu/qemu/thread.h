/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_THREAD_H
#define QEMU_THREAD_H

#include <glib.h>

#define QEMU_THREAD_JOINABLE    0

typedef GThread *QemuThread;

static inline void qemu_thread_create(QemuThread *thread, const char *name,
                                      GThreadFunc function, void *opaque,
                                      int mode)
{
    *thread = g_thread_new(name, function, opaque);
}

static inline void qemu_thread_join(QemuThread *thread)
{
    g_thread_join(*thread);
}

#endif /* QEMU_THREAD_H */
