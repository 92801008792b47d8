/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: who FILE
 *
 * Compares who ran, as the trace's names say, with what the guest of births.c
 * says by the pages that it calls.  Prints a line for each process: its pid,
 * and at how many calls it was sure, sure and wrong, likely, likely and wrong,
 * and unknown.  Then what system calls enter at, and how often that is no
 * symbol.
 */

#include <backtrail/names.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#define BEACONS     UINT64_C(0x100000000)
#define PIDS        (1u << 22)

enum { SURE, SURE_WRONG, LIKELY, LIKELY_WRONG, UNKNOWN, KINDS };

struct tally {
    uint64_t calls[KINDS];
};

static void count(const struct btrail_owners *owners, GHashTable *tallies,
                  unsigned vcpu, const struct btrail_batch *b, size_t k)
{
    uint64_t to = b->records[k].to;
    uint32_t pid = (uint32_t)((to - BEACONS) >> 12);
    struct tally *t = g_hash_table_lookup(tallies, GUINT_TO_POINTER(pid));
    const struct btrail_process *p;
    enum btrail_certainty c = btrail_owners_process(
        owners, vcpu, b->index + k, b->time.host, b->cr3, &p);

    if (!t) {
        t = g_new0(struct tally, 1);
        g_hash_table_insert(tallies, GUINT_TO_POINTER(pid), t);
    }
    t->calls[c == BTRAIL_UNKNOWN ? UNKNOWN :
             c == BTRAIL_SURE ? p->pid == pid ? SURE : SURE_WRONG :
             p->pid == pid ? LIKELY : LIKELY_WRONG]++;
}

/* Interrupts of devices have no symbols of their own, but one for all. */
static bool is_table(const struct btrail_symbol *s)
{
    return g_str_has_prefix(s->name, "irq_entries_start") ||
           g_str_has_prefix(s->name, "spurious_entries_start") ||
           g_str_has_prefix(s->name, "__irqentry_text_start");
}

int main(int argc, char **argv)
{
    GHashTable *tallies = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    GHashTable *entries = g_hash_table_new_full(g_str_hash, g_str_equal,
                                                g_free, NULL);
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_owners *owners;
    GHashTableIter iter;
    gpointer key, value;
    uint64_t no_symbol = 0;
    unsigned i;

    if (argc != 2 || btrail_trace_open_parts(&trace, argv[1]) ||
        btrail_names_open(&names, trace) ||
        btrail_owners_open(&owners, trace, names)) {
        fprintf(stderr, "who: cannot open the trace\n");
        return 1;
    }
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        size_t k;

        if (btrail_cursor_open(&cursor, trace, info.vcpu, 0)) {
            return 1;
        }
        while (!btrail_cursor_next(cursor, &b)) {
            for (k = 0; k < b.count; k++) {
                const struct btrail_record *r = &b.records[k];
                struct btrail_symbol s;

                if (r->to >= BEACONS && r->to < BEACONS + PIDS * 4096ull &&
                    !(r->to & 4095)) {
                    count(owners, tallies, info.vcpu, &b, k);
                }
                /* From the user to the kernel */
                if (!(r->to >> 63) || r->from >> 63) {
                    continue;
                }
                if (btrail_names_kernel_symbol(names, b.time.host, r->to,
                                               &s) ||
                    (s.address != r->to && !is_table(&s))) {
                    if (!no_symbol++) {
                        fprintf(stderr, "no symbol for %" G_GINT64_MODIFIER
                                "x\n", r->to);
                    }
                } else {
                    g_hash_table_add(entries, g_strdup(s.name));
                }
            }
        }
        btrail_cursor_close(cursor);
    }
    g_hash_table_iter_init(&iter, tallies);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct tally *t = value;

        printf("pid %u", GPOINTER_TO_UINT(key));
        for (i = 0; i < KINDS; i++) {
            printf(" %" G_GUINT64_FORMAT, t->calls[i]);
        }
        putchar('\n');
    }
    g_hash_table_iter_init(&iter, entries);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        printf("entry %s\n", (const char *)key);
    }
    printf("no symbol %" G_GUINT64_FORMAT "\n", no_symbol);
    g_hash_table_destroy(tallies);
    g_hash_table_destroy(entries);
    btrail_owners_close(owners);
    btrail_names_close(names);
    btrail_trace_close(trace);
    return 0;
}
