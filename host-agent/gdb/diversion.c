/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of a replay that a debugger has written to: see diversion.h
 */

#include <inttypes.h>

#include "gdb/breakpoints.h"
#include "gdb/diversion.h"

static bool ask_number(struct vm *vm, unsigned vcpu, const char *request,
                       uint64_t *number, bool *known, GError **error)
{
    g_autofree char *answer = vm_number(vm, vcpu, request, number, known,
                                        error);

    return answer;
}

/*
 * A debugger stops a function that it has called where that returns to.  One
 * for which this is not known is not called.
 */
static bool is_called(struct vm *vm, unsigned vcpu, GHashTable *breakpoints,
                      bool *called, GError **error)
{
    g_autofree char *request = NULL, *key = NULL;
    uint64_t stack, back;
    bool known;

    *called = false;
    if (!ask_number(vm, vcpu, VM_READ_STACK, &stack, &known, error)) {
        return false;
    }
    if (!known) {
        return true;
    }
    request = g_strdup_printf("m%" PRIx64 ",8", stack);
    if (!ask_number(vm, vcpu, request, &back, &known, error)) {
        return false;
    }
    if (known) {
        key = breakpoints_key(0, back, 1);
        *called = g_hash_table_contains(breakpoints, key);
    }
    return true;
}

bool diversion_find(struct vm *vm, const struct vm_place *place,
                    GHashTable *breakpoints, enum diversion *diversion,
                    unsigned *vcpu, GError **error)
{
    bool called = vm_diverted(vm), known;
    uint64_t pc;

    *diversion = DIVERSION_NONE;
    if (!vm_written(vm, vcpu)) {
        return true;
    }
    if (!ask_number(vm, *vcpu, VM_READ_PC, &pc, &known, error)) {
        return false;
    }
    if (known && pc == place->pcs[*vcpu]) {
        return true;
    }
    if (!called && !is_called(vm, *vcpu, breakpoints, &called, error)) {
        return false;
    }
    *diversion = called ? DIVERSION_CALL : DIVERSION_ELSEWHERE;
    return true;
}
