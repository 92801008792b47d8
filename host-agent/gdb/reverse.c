/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back to a breakpoint by the trace: see reverse.h
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gdb/reverse.h"
#include "gdb/rsp.h"

/* The longest instruction of x86 */
#define INSTRUCTION 15
/* Visits whose condition is found not to hold, one by one; QEMU searches
 * whole intervals */
#define VISITS      4
/* Exceptions and interrupts that are delivered before an instruction, each with
 * a step of its own, and this instruction; more are not one after another. */
#define DELIVERIES  8

/* The addresses of breakpoints; NULL if one of them is a watchpoint */
static GArray *addresses_of(GHashTable *breakpoints)
{
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, breakpoints);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const char *text = key;
        uint64_t address;

        if ((text[0] != '0' && text[0] != '1') || text[1] != ',') {
            return NULL;
        }
        address = strtoull(text + 2, NULL, 16);
        g_array_append_val(addresses, address);
    }
    return g_steal_pointer(&addresses);
}

bool reverse_find_watchpoint(struct target *t, GHashTable *breakpoints,
                             char **hit, GError **error)
{
    g_autoptr(GArray) addresses = addresses_of(breakpoints);
    uint64_t icount = target_place(t)->icount;

    *hit = NULL;
    if (addresses) {
        return true;
    }
    for (unsigned i = 0; i < DELIVERIES && !*hit &&
                         target_place(t)->icount == icount; i++) {
        if (!target_step_watched(t, breakpoints, hit, error)) {
            return false;
        }
    }
    return target_go_icount(t, icount, error);
}

/* Each repetition of a string instruction counts, and the last one is meant. */
static bool repeats(struct target *t, unsigned vcpu, uint64_t pc)
{
    g_autofree char *request = g_strdup_printf("m%" PRIx64 ",%x", pc,
                                               INSTRUCTION);
    size_t length;
    g_autofree char *digits = target_forward(t, vcpu, request,
                                             strlen(request), &length, NULL);
    g_autofree char *bytes = digits ? rsp_unhex(digits, NULL) : NULL;
    size_t n = bytes ? length / 2 : 0;
    bool prefix = false;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = bytes[i];

        if (c == 0xf2 || c == 0xf3) {
            prefix = true;
        } else if (c != 0x66 && c != 0x67 && c >> 4 != 4 && c != 0x2e &&
                   c != 0x36 && c != 0x3e && c != 0x26 && c != 0x64 &&
                   c != 0x65) {
            return prefix && ((c >= 0xa4 && c <= 0xa7) ||
                              (c >= 0xaa && c <= 0xaf) ||
                              (c >= 0x6c && c <= 0x6f));
        }
    }
    /* Its bytes cannot be read. */
    return true;
}

/*
 * Within the block of a vCPU, to where it executes the instruction at
 * @visit->at.  Others can run within it.
 */
static enum history_answer walk(struct target *t, unsigned vcpu,
                                const struct history_visit *visit,
                                uint64_t before, uint64_t *icount)
{
    const struct target_place *at = target_place(t);
    const struct turns *turns = target_turns(t);
    uint64_t end = MIN(visit->end, before);

    while (at->pcs[vcpu] != visit->at && at->icount < end) {
        uint64_t pc = at->pcs[vcpu];

        if (!target_step(t, vcpu, NULL) || at->pcs[vcpu] <= pc) {
            return HISTORY_UNKNOWN;
        }
    }
    *icount = turns_next(turns, vcpu, at->icount);
    return at->pcs[vcpu] == visit->at && *icount < end &&
           !repeats(t, vcpu, visit->at) ? HISTORY_FOUND : HISTORY_UNKNOWN;
}

/**
 * struct last - where the guest was last at one of the addresses
 * @vcpu: that was there
 */
struct last {
    unsigned vcpu;
    uint64_t icount;
    uint64_t pc;
};

/* The same of one vCPU, if that was behind @last, or @any is false */
static enum history_answer find_last(struct target *t, struct history *h,
                                     const GArray *addresses,
                                     const struct target_place *from,
                                     unsigned vcpu, bool any,
                                     struct last *last)
{
    enum history_answer answer;
    struct history_visit visit;
    uint64_t icount;

    if (!turns_last(target_turns(t), vcpu, from->icount, &icount)) {
        return HISTORY_NONE;
    }
    answer = history_last_visit(h, vcpu, (uint64_t *)addresses->data,
                                addresses->len, from->icount,
                                from->pcs[vcpu], &visit);
    if (answer != HISTORY_FOUND) {
        return answer;
    }
    if (any && visit.end <= last->icount) {
        return HISTORY_NONE;
    }
    /* Behind an exception or interrupt, which is no instruction.  It is not
     * there if the trace is of another replay. */
    if (!target_go_vcpu(t, visit.start, vcpu, visit.to, NULL)) {
        return HISTORY_UNKNOWN;
    }
    answer = walk(t, vcpu, &visit, from->icount, &icount);
    if (answer == HISTORY_FOUND && (!any || icount > last->icount)) {
        *last = (struct last) { vcpu, icount, visit.at };
    }
    return answer;
}

/* To the last visit before @from.  Its condition need not hold. */
static enum history_answer go_to_last(struct target *t, struct history *h,
                                      const GArray *addresses,
                                      const struct target_place *from,
                                      struct last *last, GError **error)
{
    bool any = false;

    for (unsigned vcpu = 0; vcpu < target_vcpus(t); vcpu++) {
        switch (find_last(t, h, addresses, from, vcpu, any, last)) {
        case HISTORY_UNKNOWN:
            return HISTORY_UNKNOWN;
        case HISTORY_FOUND:
            any = true;
            break;
        default:
            break;
        }
    }
    if (!any) {
        return target_go_icount(t, 0, error) ? HISTORY_NONE :
               HISTORY_UNKNOWN;
    }
    return target_go_vcpu(t, last->icount, last->vcpu, last->pc, error) ?
           HISTORY_FOUND : HISTORY_UNKNOWN;
}

enum history_answer reverse_continue(struct target *t, struct history *h,
                                     GHashTable *breakpoints,
                                     const struct target_place *place,
                                     GError **error)
{
    g_autoptr(GArray) addresses = addresses_of(breakpoints);
    struct target_place from = *place;

    for (unsigned i = 0; addresses && i < VISITS; i++) {
        struct last last = { 0 };
        enum history_answer answer = go_to_last(t, h, addresses, &from, &last,
                                                error);

        if (answer != HISTORY_FOUND ||
            target_at_breakpoint(t, last.vcpu, breakpoints)) {
            return answer;
        }
        from = *target_place(t);
    }
    return HISTORY_UNKNOWN;
}
