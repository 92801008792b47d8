/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a kernel wakes tasks: see wakes.h
 *
 * try_to_wake_up() is called for tasks that are awake, too, and decides with a
 * lock held.  After that it is where the tracepoint sched_waking is: an
 * instruction that the kernel changes when somebody uses the tracepoint, so that
 * its table of such instructions has the place (struct jump_entry).  The same
 * holds for wake_up_new_task() and sched_wakeup_new.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/wakes.h"

/* struct jump_entry: all relative to the member's own place */
#define ENTRY_SIZE  16
#define ENTRY_CODE  0       /* 32 bits */
#define ENTRY_KEY   8       /* 64 bits; the lowest two are flags */

/* Debian's 6.12 has 9000 entries. */
#define ENTRIES_MAX (1u << 18)
#define AT_ONCE     4096

/* Where the next function begins; 0 if there is none */
static uint64_t end_of(const struct linux_kernel *k, uint64_t function)
{
    uint32_t n = kallsyms_count(k->symbols);
    uint64_t end = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t address;
        const char *name;
        char type;

        kallsyms_get(k->symbols, i, &address, &type, &name);
        if (address > function && (!end || address < end)) {
            end = address;
        }
    }
    return end;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof(value));
    return GUINT64_FROM_LE(value);
}

static uint64_t get_signed32(const uint8_t *p)
{
    int32_t value;

    memcpy(&value, p, sizeof(value));
    return (uint64_t)(int64_t)(int32_t)GUINT32_FROM_LE((uint32_t)value);
}

/* A function, and where a tracepoint is in it: at most @max places */
struct search {
    uint64_t function;
    uint64_t end;
    uint64_t key;               /* of the tracepoint */
    uint64_t *places;
    unsigned max;
    unsigned n;
};

/* Searches some entries; false if a place is not in the function. */
static bool search_entries(struct search *s, uint64_t at, const uint8_t *table,
                           size_t size)
{
    for (size_t i = 0; i < size; i += ENTRY_SIZE) {
        const uint8_t *entry = table + i;
        uint64_t code = at + i + ENTRY_CODE + get_signed32(entry + ENTRY_CODE);

        if (((at + i + ENTRY_KEY + get64(entry + ENTRY_KEY)) &
             ~UINT64_C(3)) != s->key) {
            continue;
        }
        if (code <= s->function || code >= s->end || s->n == s->max) {
            return false;
        }
        s->places[s->n++] = code;
    }
    return true;
}

static bool search_table(struct linux_kernel *k, struct search *s)
{
    g_autofree uint8_t *table = g_malloc(AT_ONCE);
    uint64_t start, stop;

    if (!kallsyms_find(k->symbols, "__start___jump_table", &start) ||
        !kallsyms_find(k->symbols, "__stop___jump_table", &stop) ||
        stop <= start || (stop - start) / ENTRY_SIZE > ENTRIES_MAX ||
        (stop - start) % ENTRY_SIZE) {
        return false;
    }
    for (; start < stop; start += AT_ONCE) {
        size_t size = MIN(AT_ONCE, stop - start);

        if (!page_walk_read(&k->walk, start, table, size) ||
            !search_entries(s, start, table, size)) {
            return false;
        }
    }
    return s->n;
}

static bool find(struct linux_kernel *k, const char *name,
                 const char *tracepoint, uint64_t *function, uint64_t *places,
                 unsigned max)
{
    struct search s = { .places = places, .max = max };

    if (!kallsyms_find(k->symbols, name, function) ||
        !kallsyms_find(k->symbols, tracepoint, &s.key) ||
        *function < BTRAIL_TASKS_MIN_ADDRESS) {
        return false;
    }
    s.function = *function;
    s.end = end_of(k, *function);
    s.key += k->layout.tracepoint_key;
    return search_table(k, &s);
}

bool linux_wakes_find(struct linux_kernel *k)
{
    k->wakes_sought = true;
    memset(k->waking, 0, sizeof(k->waking));
    if (k->layout.tracepoint_key != LINUX_NONE &&
        find(k, "try_to_wake_up", "__tracepoint_sched_waking", &k->wake,
             k->waking, BTRAIL_TASKS_WAKING) &&
        find(k, "wake_up_new_task", "__tracepoint_sched_wakeup_new",
             &k->wake_new, &k->waking_new, 1)) {
        return true;
    }
    k->wake = k->wake_new = k->waking_new = 0;
    memset(k->waking, 0, sizeof(k->waking));
    return false;
}
