/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes the PT stream of a vCPU of a trace: pt-encode trace=FILE stream=FILE
 * [known=FILE] [tail=BYTES] [NAME=VALUE]...; for the names see encode.h
 *
 * tail= has only the last bytes of the stream written, as a ring has them.
 *
 * The file known= says in lines what a decoder can know of the stream:
 *
 *   vcpu N
 *   records N                   from index FIRST on
 *   first FIRST
 *   determined FIRST END        it must say these records, END not included
 *   partly FIRST END            of these it cannot know one of the addresses
 *   psb|ovf|cut|on|entry OFFSET INDEX TSC  what is there: PSB+, OVF, bytes
 *                               are missing, TIP.PGE, the PIP of a VM entry;
 *                               and the first record that is known from there
 *
 * Other records must not come.
 *
 * The file image= has the pages of code of the selected addresses, as they were
 * last: first, in 16 bytes each, address and offset in the file, then 0.
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
    static const char *const words[] = { "psb", "ovf", "cut", "on", "entry" };
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

struct image {
    const struct encode_options *o;
    GArray *addresses;          /* of uint64_t */
    GByteArray *bytes;
    unsigned changed;
};

static void add_page(void *opaque, uint64_t root, uint64_t address,
                     const uint8_t *bytes, unsigned contents)
{
    struct image *image = opaque;

    if (image->o->select == ENCODE_SELECT_USER ? root == image->o->root :
        address >> 63) {
        address += image->o->shift;
        g_array_append_val(image->addresses, address);
        g_byte_array_append(image->bytes, bytes, 4096);
        image->changed += contents > 1;
    }
}

static void write_image(const char *path, struct truth *t,
                        const struct encode_options *o)
{
    struct image image = {
        o, g_array_new(TRUE, TRUE, 8), g_byte_array_new(), 0,
    };
    g_autoptr(GByteArray) file = g_byte_array_new();
    g_autoptr(GError) error = NULL;
    uint64_t begin;

    truth_pages(t, add_page, &image);
    begin = (image.addresses->len + 1) * 16;
    begin = (begin + 4095) / 4096 * 4096;
    for (unsigned i = 0; i <= image.addresses->len; i++) {
        uint64_t line[2] = {
            i < image.addresses->len ?
            g_array_index(image.addresses, uint64_t, i) : 0,
            begin + i * UINT64_C(4096),
        };

        g_byte_array_append(file, (uint8_t *)line, sizeof(line));
    }
    g_byte_array_set_size(file, begin);
    g_byte_array_append(file, image.bytes->data, image.bytes->len);
    if (!g_file_set_contents(path, (char *)file->data, file->len, &error)) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
    printf("pages %u changed %u ", image.addresses->len, image.changed);
    g_array_free(image.addresses, TRUE);
    g_byte_array_free(image.bytes, TRUE);
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct arguments a;
    struct truth t;
    struct encoded e;
    uint64_t known[3] = { 0 };

    arguments_encode(&a, argc, argv, &t, &e);
    for (uint64_t i = 0; i < t.n; i++) {
        known[e.known[i]]++;
    }
    if (a.image) {
        write_image(a.image, &t, &a.o);
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
    a.tail = MIN(a.tail, e.bytes->len);
    if (a.stream && !g_file_set_contents(
            a.stream, (char *)e.bytes->data + e.bytes->len - a.tail,
            (gssize)a.tail, &error)) {
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
