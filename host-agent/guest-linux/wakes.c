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
    const char *name;
    const char *tracepoint;
    uint64_t *places;
    unsigned max;
    uint64_t function;
    uint64_t end;               /* where the next one begins; 0: there is none */
    uint64_t key;               /* of the tracepoint */
    unsigned n;
};

enum { WAKE, WAKE_NEW, SEARCHES };

static bool find_names(const struct linux_kernel *k, struct search *s)
{
    for (unsigned i = 0; i < SEARCHES; i++) {
        if (!kallsyms_find(k->symbols, s[i].name, &s[i].function) ||
            !kallsyms_find(k->symbols, s[i].tracepoint, &s[i].key) ||
            s[i].function < BTRAIL_TASKS_MIN_ADDRESS) {
            return false;
        }
        s[i].key += k->layout.tracepoint_key;
    }
    return true;
}

static void find_ends(const struct linux_kernel *k, struct search *s)
{
    uint32_t n = kallsyms_count(k->symbols);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t address;
        const char *name;
        char type;

        kallsyms_get(k->symbols, i, &address, &type, &name);
        for (unsigned j = 0; j < SEARCHES; j++) {
            if (address > s[j].function && (!s[j].end || address < s[j].end)) {
                s[j].end = address;
            }
        }
    }
}

/* Searches some entries; false if a place is not in its function. */
static bool search_entries(struct search *s, uint64_t at, const uint8_t *table,
                           size_t size)
{
    for (size_t i = 0; i < size; i += ENTRY_SIZE) {
        const uint8_t *entry = table + i;
        uint64_t code = at + i + ENTRY_CODE + get_signed32(entry + ENTRY_CODE);
        uint64_t key = (at + i + ENTRY_KEY + get64(entry + ENTRY_KEY)) &
                       ~UINT64_C(3);

        for (unsigned j = 0; j < SEARCHES; j++) {
            if (key != s[j].key) {
                continue;
            }
            if (code <= s[j].function || code >= s[j].end ||
                s[j].n == s[j].max) {
                return false;
            }
            s[j].places[s[j].n++] = code;
        }
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
    return s[WAKE].n && s[WAKE_NEW].n;
}

bool linux_wakes_find(struct linux_kernel *k)
{
    struct search s[SEARCHES] = {
        [WAKE] = {
            "try_to_wake_up", "__tracepoint_sched_waking", k->waking,
            BTRAIL_TASKS_WAKING,
        },
        [WAKE_NEW] = {
            "wake_up_new_task", "__tracepoint_sched_wakeup_new",
            &k->waking_new, 1,
        },
    };

    k->wakes_sought = true;
    k->wake = k->wake_new = k->waking_new = 0;
    memset(k->waking, 0, sizeof(k->waking));
    if (k->layout.tracepoint_key == LINUX_NONE || !find_names(k, s)) {
        return false;
    }
    find_ends(k, s);
    if (!search_table(k, s)) {
        k->waking_new = 0;
        memset(k->waking, 0, sizeof(k->waking));
        return false;
    }
    k->wake = s[WAKE].function;
    k->wake_new = s[WAKE_NEW].function;
    return true;
}
