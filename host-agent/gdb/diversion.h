/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of a replay that a debugger has written to, when it lets the
 * guest run
 *
 * What it has written is not in the recording.  A function that it calls is
 * executed all the same, apart from the replay; anything else would be another
 * guest than the recorded one.
 */

#ifndef BTRAIL_GDB_DIVERSION_H
#define BTRAIL_GDB_DIVERSION_H

#include "gdb/vm.h"

/**
 * enum diversion
 * @DIVERSION_NONE:  the guest goes on as it was recorded, without what was
 *                   written
 * @DIVERSION_CALL:  it executes a function that the debugger calls, or goes on
 *                   with that
 * @DIVERSION_ELSEWHERE: it was to go on elsewhere: it must not run
 */
enum diversion {
    DIVERSION_NONE,
    DIVERSION_CALL,
    DIVERSION_ELSEWHERE,
};

/**
 * diversion_find - what it is for which a debugger lets the guest run
 * @place:       where the guest is in the recording
 * @breakpoints: the debugger's
 * @vcpu:        gets the one that executes the function
 *
 * Errors: those of vm_forward(), PROTOCOL.
 */
bool diversion_find(struct vm *vm, const struct vm_place *place,
                    GHashTable *breakpoints, enum diversion *diversion,
                    unsigned *vcpu, GError **error);

#endif /* BTRAIL_GDB_DIVERSION_H */
