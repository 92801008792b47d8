/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes the PT stream of a vCPU of a trace: pt-encode trace=FILE stream=FILE
 * [known=FILE] [NAME=VALUE]...; for the names see encode.h
 *
 * The file known= says in lines what a decoder can know of the stream:
 *
 *   vcpu N
 *   records N                   from index FIRST on
 *   first FIRST
 *   determined FIRST END        it must say these records, END not included
 *   partly FIRST END            of these it cannot know one of the addresses
 *   psb|ovf|cut OFFSET INDEX TSC  what begins there: the first record that
 *                               is known from there on; bytes are missing
 *
 * Other records must not come.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"

static void print_ranges(FILE *f, const struct truth *t,
                         const struct encoded *e)
{
    static const char *const words[] = { NULL, "determined", "partly" };

    for (uint64_t i = 0, end; i < t->n; i = end) {
        for (end = i + 1; end < t->n && e->known[end] == e->known[i] &&
                          truth_index(t, end) == truth_index(t, end - 1) + 1;
             end++) {
        }
        if (words[e->known[i]]) {
            fprintf(f, "%s %" PRIu64 " %" PRIu64 "\n", words[e->known[i]],
                    truth_index(t, i), truth_index(t, end - 1) + 1);
        }
    }
}

static void print_known(const char *path, const struct truth *t,
                        const struct encoded *e)
{
    static const char *const words[] = { "psb", "ovf", "cut" };
    FILE *f = fopen(path, "w");

    if (!f) {
        perror(path);
        exit(1);
    }
    fprintf(f, "vcpu %u\nrecords %" PRIu64 "\nfirst %" PRIu64 "\n", t->vcpu,
            t->n, t->first);
    print_ranges(f, t, e);
    for (unsigned i = 0; i < e->places->len; i++) {
        const struct encode_place *p =
            &g_array_index(e->places, struct encode_place, i);

        fprintf(f, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", words[p->kind],
                p->offset, p->at < t->n ? truth_index(t, p->at) :
                truth_index(t, t->n - 1) + 1, p->tsc);
    }
    if (fclose(f)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct arguments a;
    struct truth t = { 0 };
    struct encoded e;
    uint64_t known[3] = { 0 };

    arguments_get(&a, argc, argv);
    truth_load(&t, a.trace, a.vcpu, a.first, a.records);
    if (!t.n) {
        fprintf(stderr, "%s: no records\n", a.trace);
        return 1;
    }
    encode(&t, &a.o, &e);
    for (uint64_t i = 0; i < t.n; i++) {
        known[e.known[i]]++;
    }
    printf("records %" PRIu64 " determined %" PRIu64 " partly %" PRIu64
           " failed %" PRIu64 " insns %" PRIu64 " bytes %u psb %" PRIu64
           " exits %" PRIu64 " host-bytes %" PRIu64 " injected %" PRIu64
           " overflows %" PRIu64 " fup %" PRIu64 " sleeps %" PRIu64
           " deferred %" PRIu64 " compressed %" PRIu64 " loops %" PRIu64
           " forms", t.n, known[ENCODE_DETERMINED], known[ENCODE_PARTLY],
           e.counts.failed, e.counts.insns, e.bytes->len, e.counts.psbs,
           e.counts.exits, e.counts.host_bytes, e.counts.injected,
           e.counts.overflows, e.counts.fups, e.counts.slept,
           e.counts.deferred, e.counts.compressed,
           e.counts.undetermined_loops);
    for (int i = 0; i < 8; i++) {
        printf(" %" PRIu64, e.forms[i]);
    }
    printf("\n");
    if (a.stream && !g_file_set_contents(a.stream, (char *)e.bytes->data,
                                         e.bytes->len, &error)) {
        fprintf(stderr, "%s\n", error->message);
        return 1;
    }
    if (a.known) {
        print_known(a.known, &t, &e);
    }
    g_byte_array_free(e.bytes, TRUE);
    g_free(e.known);
    g_array_free(e.places, TRUE);
    truth_free(&t);
    return 0;
}
