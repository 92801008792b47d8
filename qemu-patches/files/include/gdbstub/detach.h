/*
 * Notice that GDB is gone
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef GDBSTUB_DETACH_H
#define GDBSTUB_DETACH_H

#include "qemu/notify.h"

/**
 * gdb_add_detach_notifier() - have @notifier called when GDB has gone
 *
 * Its connection is closed then: it has detached, or has been killed.  Called in
 * the main loop, with the BQL held.  System emulation only.
 */
void gdb_add_detach_notifier(Notifier *notifier);

#endif /* GDBSTUB_DETACH_H */
