/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back to a breakpoint by the trace: see reverse.h
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gdb/reverse.h"
#include "gdb/rsp.h"
#include "util/apart.h"

/* The longest instruction of x86 */
#define INSTRUCTION 15
/* Visits whose condition is found not to hold, one by one; QEMU searches
 * whole intervals */
#define VISITS      4
/* Exceptions and interrupts that are delivered before an instruction, each with
 * a step of its own, and this instruction; more are not one after another. */
#define DELIVERIES  8

/**
 * struct sought_visit - what the trace says of a vCPU
 */
struct sought_visit {
    enum history_answer answer;
    struct history_visit visit;
};

/**
 * struct search - for the last visits of all vCPUs, in a process of its own
 * @search: NULL if it has not begun
 * @from:   before which place
 */
struct search {
    struct apart *search;
    struct target_place from;
    struct history *history;
    const GArray *addresses;
    const struct turns *turns;
    unsigned vcpus;
};

struct reverse {
    struct history *history;
    struct search searches[VISITS];
};

struct reverse *reverse_new(struct history *h)
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

static bool is_cancelled(const GError *error)
{
    return g_error_matches(error, BTRAIL_AGENT_ERROR,
                           BTRAIL_AGENT_ERROR_CANCELLED);
}

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
                                uint64_t before, uint64_t *icount,
                                GError **error)
{
    const struct target_place *at = target_place(t);
    const struct turns *turns = target_turns(t);
    uint64_t end = MIN(visit->end, before);

    while (at->pcs[vcpu] != visit->at && at->icount < end) {
        uint64_t pc = at->pcs[vcpu];

        if (!target_step(t, vcpu, error) || at->pcs[vcpu] <= pc) {
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

static void search(void *opaque, GByteArray *out)
{
    const struct search *s = opaque;

    for (unsigned vcpu = 0; vcpu < s->vcpus; vcpu++) {
        struct sought_visit sought = { .answer = HISTORY_NONE };
        uint64_t icount;

        if (turns_last(s->turns, vcpu, s->from.icount, &icount)) {
            sought.answer = history_last_visit(
                s->history, vcpu, (uint64_t *)s->addresses->data,
                s->addresses->len, s->from.icount, s->from.pcs[vcpu],
                &sought.visit);
        }
        g_byte_array_append(out, (void *)&sought, sizeof(sought));
    }
}

static bool goes_on(void *opaque)
{
    return target_goes_on(opaque);
}

/* Of all vCPUs; NULL with an error if it does not go on, or without one if
 * there is no answer */
static const struct sought_visit *
search_trace(struct target *t, struct search *s, struct history *h,
             const GArray *addresses, const struct target_place *from,
             GError **error)
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
        s->turns = target_turns(t);
        s->vcpus = target_vcpus(t);
        s->search = apart_start(search, s);
        s->addresses = NULL;
    }
    if (!s->search) {
        return NULL;
    }
    if (!apart_wait(s->search, goes_on, t)) {
        btrail_agent_fail(error, BTRAIL_AGENT_ERROR_CANCELLED, "interrupted");
        return NULL;
    }
    found = apart_answer(s->search);
    return found && found->len == s->vcpus * sizeof(struct sought_visit) ?
           (const struct sought_visit *)found->data : NULL;
}

/* The same of one vCPU, if that was behind @last, or @any is false */
static enum history_answer find_last(struct target *t,
                                     const struct sought_visit *sought,
                                     const struct target_place *from,
                                     unsigned vcpu, bool any,
                                     struct last *last, GError **error)
{
    enum history_answer answer = sought->answer;
    struct history_visit visit = sought->visit;
    uint64_t icount;

    if (answer != HISTORY_FOUND) {
        return answer;
    }
    if (any && visit.end <= last->icount) {
        return HISTORY_NONE;
    }
    /* Behind an exception or interrupt, which is no instruction.  It is not
     * there if the trace is of another replay. */
    if (!target_go_vcpu(t, visit.start, vcpu, visit.to, error)) {
        return HISTORY_UNKNOWN;
    }
    answer = walk(t, vcpu, &visit, from->icount, &icount, error);
    if (answer == HISTORY_FOUND && (!any || icount > last->icount)) {
        *last = (struct last) { vcpu, icount, visit.at };
    }
    return answer;
}

/* To the last visit before @from.  Its condition need not hold. */
static enum history_answer go_to_last(struct target *t,
                                      const struct sought_visit *sought,
                                      const struct target_place *from,
                                      struct last *last, GError **error)
{
    bool any = false;

    for (unsigned vcpu = 0; vcpu < target_vcpus(t); vcpu++) {
        switch (find_last(t, &sought[vcpu], from, vcpu, any, last, error)) {
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

/* Its errors are reasons for QEMU to search, too. */
static enum history_answer try(struct target *t, struct reverse *r,
                               GHashTable *breakpoints,
                               const struct target_place *place,
                               GError **error)
{
    g_autoptr(GArray) addresses = addresses_of(breakpoints);
    struct target_place from = *place;

    for (unsigned i = 0; addresses && i < VISITS; i++) {
        const struct sought_visit *sought =
            search_trace(t, &r->searches[i], r->history, addresses, &from,
                         error);
        struct last last = { 0 };
        enum history_answer answer = sought ?
            go_to_last(t, sought, &from, &last, error) : HISTORY_UNKNOWN;

        if (answer != HISTORY_FOUND ||
            target_at_breakpoint(t, last.vcpu, breakpoints)) {
            return answer;
        }
        from = *target_place(t);
    }
    return HISTORY_UNKNOWN;
}

enum history_answer reverse_continue(struct target *t, struct reverse *r,
                                     GHashTable *breakpoints,
                                     const struct target_place *place,
                                     GError **error)
{
    GError *local = NULL;
    enum history_answer answer = try(t, r, breakpoints, place, &local);

    if (is_cancelled(local)) {
        g_propagate_error(error, local);
        return HISTORY_UNKNOWN;
    }
    g_clear_error(&local);
    return answer;
}
