/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back to a breakpoint by the trace: see reverse.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/breakpoints.h"
#include "gdb/reverse.h"
#include "gdb/rsp.h"
#include "util/apart.h"

/* The longest instruction of x86 */
#define INSTRUCTION 15
/*
 * Visits whose condition is found not to hold, one by one; QEMU searches
 * whole intervals
 */
#define VISITS      4
/*
 * Exceptions and interrupts that are delivered before an instruction, each with
 * a step of its own, and this instruction; no more follow each other.
 */
#define DELIVERIES  8

/**
 * struct wanted_visit - what the trace says of a vCPU
 */
struct wanted_visit {
    enum past_answer answer;
    struct past_visit visit;
};

/**
 * struct past_search - for the last visits of all vCPUs, in another process
 * @search: NULL if it has not begun
 * @from:   before which place
 */
struct past_search {
    struct apart *search;
    struct vm_place from;
    struct past *history;
    const GArray *addresses;
    const struct past_filter *filter;
    const struct turns *turns;
    unsigned vcpus;
};

struct reverse {
    struct past *history;
    struct past_search searches[VISITS];
};

struct reverse *reverse_new(struct past *h)
{
    struct reverse *r = g_new0(struct reverse, 1);

    r->history = h;
    return r;
}

void reverse_free(struct reverse *r)
{
    if (r) {
        for (unsigned i = 0; i < VISITS; i++) {
            apart_free(r->searches[i].search);
        }
        g_free(r);
    }
}

bool reverse_find_watchpoint(struct vm *vm, GHashTable *breakpoints,
                             char **hit, GError **error)
{
    g_autoptr(GArray) addresses = breakpoints_addresses(breakpoints);
    uint64_t icount = vm_place(vm)->icount;

    *hit = NULL;
    if (addresses) {
        return true;
    }
    for (unsigned i = 0; i < DELIVERIES && !*hit &&
                         vm_place(vm)->icount == icount; i++) {
        if (!vm_step_watched(vm, breakpoints, hit, error)) {
            return false;
        }
    }
    return vm_go_icount(vm, icount, error);
}

/* Each repetition of a string instruction counts, and the last one is meant. */
static bool repeats(struct vm *vm, unsigned vcpu, uint64_t pc)
{
    g_autofree char *request = g_strdup_printf("m%" PRIx64 ",%x", pc,
                                               INSTRUCTION);
    size_t length;
    g_autofree char *digits = vm_forward(vm, vcpu, request,
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
static enum past_answer walk(struct vm *vm, unsigned vcpu,
                             const struct past_visit *visit,
                             uint64_t before, uint64_t *icount,
                             GError **error)
{
    const struct vm_place *at = vm_place(vm);
    const struct turns *turns = vm_turns(vm);
    uint64_t end = MIN(visit->end, before);

    while (at->pcs[vcpu] != visit->at && at->icount < end) {
        uint64_t pc = at->pcs[vcpu];

        if (!vm_step(vm, vcpu, error) || at->pcs[vcpu] <= pc) {
            return PAST_UNKNOWN;
        }
    }
    *icount = turns_next(turns, vcpu, at->icount);
    return at->pcs[vcpu] == visit->at && *icount < end &&
           !repeats(vm, vcpu, visit->at) ? PAST_FOUND : PAST_UNKNOWN;
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

static void search(void *opaque, GByteArray *out)
{
    const struct past_search *s = opaque;

    for (unsigned vcpu = 0; vcpu < s->vcpus; vcpu++) {
        struct wanted_visit wanted = { .answer = PAST_NONE };
        uint64_t icount;

        if (turns_last(s->turns, vcpu, s->from.icount, &icount)) {
            wanted.answer = past_last_visit(
                s->history, vcpu, (uint64_t *)s->addresses->data,
                s->addresses->len, s->from.icount, s->from.pcs[vcpu],
                s->filter, &wanted.visit);
        }
        g_byte_array_append(out, (void *)&wanted, sizeof(wanted));
    }
}

static bool goes_on(void *opaque)
{
    return vm_goes_on(opaque);
}

/*
 * Of all vCPUs; NULL with an error if it shall not continue, or without one if
 * there is no answer
 */
static const struct wanted_visit *
search_trace(struct vm *vm, struct past_search *s, struct past *h,
             const GArray *addresses, const struct vm_place *from,
             const struct past_filter *filter, GError **error)
{
    const GByteArray *found;

    if (s->search && (s->from.icount != from->icount ||
                      memcmp(s->from.pcs, from->pcs, sizeof(from->pcs)))) {
        g_clear_pointer(&s->search, apart_free);
    }
    if (!s->search) {
        s->from = *from;
        s->history = h;
        s->addresses = addresses;
        s->filter = filter;
        s->turns = vm_turns(vm);
        s->vcpus = vm_vcpus(vm);
        s->search = apart_start(search, s);
        s->addresses = NULL;
        s->filter = NULL;
    }
    if (!s->search) {
        return NULL;
    }
    if (!apart_wait(s->search, goes_on, vm)) {
        agent_fail(error, AGENT_ERROR_CANCELLED, "interrupted");
        return NULL;
    }
    found = apart_answer(s->search);
    return found && found->len == s->vcpus * sizeof(struct wanted_visit) ?
           (const struct wanted_visit *)found->data : NULL;
}

/* The same of one vCPU, if that was after @last, or @any is false */
static enum past_answer find_last(struct vm *vm,
                                  const struct wanted_visit *wanted,
                                  const struct vm_place *from,
                                  unsigned vcpu, bool any,
                                  struct last *last, GError **error)
{
    enum past_answer answer = wanted->answer;
    struct past_visit visit = wanted->visit;
    uint64_t icount;

    if (answer != PAST_FOUND) {
        return answer;
    }
    if (any && visit.end <= last->icount) {
        return PAST_NONE;
    }
    /*
     * After an exception or interrupt, which is no instruction.  It is not
     * there if the trace is of another replay.
     */
    if (!vm_go_vcpu(vm, visit.start, vcpu, visit.to, error)) {
        return PAST_UNKNOWN;
    }
    answer = walk(vm, vcpu, &visit, from->icount, &icount, error);
    if (answer == PAST_FOUND && (!any || icount > last->icount)) {
        *last = (struct last) { vcpu, icount, visit.at };
    }
    return answer;
}

/* To the last visit before @from.  Its condition need not hold. */
static enum past_answer go_to_last(struct vm *vm,
                                   const struct wanted_visit *wanted,
                                   const struct vm_place *from,
                                   struct last *last, GError **error)
{
    bool any = false;

    for (unsigned vcpu = 0; vcpu < vm_vcpus(vm); vcpu++) {
        switch (find_last(vm, &wanted[vcpu], from, vcpu, any, last, error)) {
        case PAST_UNKNOWN:
            return PAST_UNKNOWN;
        case PAST_FOUND:
            any = true;
            break;
        default:
            break;
        }
    }
    if (!any) {
        return vm_go_icount(vm, 0, error) ? PAST_NONE :
               PAST_UNKNOWN;
    }
    return vm_go_vcpu(vm, last->icount, last->vcpu, last->pc, error) ?
           PAST_FOUND : PAST_UNKNOWN;
}

/* Its errors are reasons for QEMU to search, too. */
static enum past_answer try(struct vm *vm, struct reverse *r,
                            GHashTable *breakpoints,
                            const struct vm_place *place,
                            const struct past_filter *filter,
                            GError **error)
{
    g_autoptr(GArray) addresses = breakpoints_addresses(breakpoints);
    struct vm_place from = *place;

    for (unsigned i = 0; addresses && i < VISITS; i++) {
        const struct wanted_visit *wanted =
            search_trace(vm, &r->searches[i], r->history, addresses, &from,
                         filter, error);
        struct last last = { 0 };
        enum past_answer answer = wanted ?
            go_to_last(vm, wanted, &from, &last, error) : PAST_UNKNOWN;

        if (answer != PAST_FOUND ||
            vm_at_breakpoint(vm, last.vcpu, breakpoints)) {
            return answer;
        }
        from = *vm_place(vm);
    }
    return PAST_UNKNOWN;
}

enum past_answer reverse_continue(struct vm *vm, struct reverse *r,
                                  GHashTable *breakpoints,
                                  const struct vm_place *place,
                                  const struct past_filter *filter,
                                  GError **error)
{
    GError *local = NULL;
    enum past_answer answer = try(vm, r, breakpoints, place, filter, &local);

    if (agent_is_cancelled(local)) {
        g_propagate_error(error, local);
        return PAST_UNKNOWN;
    }
    g_clear_error(&local);
    return answer;
}
