/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that is read: whatever its index says, with checksums that are right,
 * nothing is read that is not so
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/agent/file.h"
#include "lib/internal/crc32c.h"
#include "trace-samples.h"

#define CHUNKS  5u              /* of each of two vCPUs */
#define MOST     64u

struct place {
    size_t at;                  /* of its header */
    struct btrail_chunk chunk;
};

/* The bytes of a sample, and where its chunks are */
struct bytes {
    uint8_t *data;
    size_t size;
    struct place places[MOST];
    unsigned n;
};

static char *path;
static struct bytes whole;

static void find_chunks(struct bytes *b)
{
    b->n = 0;
    for (size_t at = BTRAIL_FILE_HEADER_SIZE; at < b->size; b->n++) {
        struct place *p = &b->places[b->n];

        g_assert_cmpuint(b->n, <, MOST);
        p->at = at;
        g_assert_true(btrail_chunk_get(b->data + at, &p->chunk));
        at += BTRAIL_CHUNK_HEADER_SIZE + p->chunk.size;
    }
}

static struct bytes copy_of(const struct bytes *b)
{
    struct bytes copy = *b;

    copy.data = g_memdup2(b->data, b->size);
    return copy;
}

static uint8_t *payload_of(const struct bytes *b, unsigned i)
{
    return b->data + b->places[i].at + BTRAIL_CHUNK_HEADER_SIZE;
}

/* Writes the header of a chunk that was changed. */
static void sign(struct bytes *b, unsigned i)
{
    struct place *p = &b->places[i];

    p->chunk.crc = btrail_crc32c(0, payload_of(b, i), p->chunk.size);
    btrail_chunk_put(b->data + p->at, &p->chunk);
}

/* The first chunk of a type */
static unsigned first_of(const struct bytes *b, unsigned type)
{
    unsigned i = 0;

    while (b->places[i].chunk.type != type) {
        i++;
        g_assert_cmpuint(i, <, b->n);
    }
    return i;
}

static int open_bytes(struct btrail_file **f, const struct bytes *b)
{
    FILE *out = fopen(path, "we");

    /* Without waiting for a disk, as g_file_set_contents() does */
    g_assert_nonnull(out);
    g_assert_cmpuint(fwrite(b->data, 1, b->size, out), ==, b->size);
    g_assert_cmpint(fclose(out), ==, 0);
    return btrail_file_open(f, open(path, O_RDONLY | O_CLOEXEC), false);
}

/* The chunk that a vCPU has from an index on; NULL if it has none */
static const uint8_t *true_payload(unsigned vcpu, uint64_t first,
                                   uint32_t *size,
                                   struct btrail_block_header *h)
{
    for (unsigned i = 0; i < whole.n; i++) {
        const struct btrail_chunk *c = &whole.places[i].chunk;

        if (c->type == BTRAIL_CHUNK_DATA &&
            btrail_block_header_get(payload_of(&whole, i), c->size, h) &&
            h->vcpu == vcpu && h->first_index == first) {
            *size = c->size;
            return payload_of(&whole, i);
        }
    }
    return NULL;
}

/* What can be read of a chunk is what it has, and its entry says that, too. */
static unsigned check_data(const struct btrail_file *f,
                           const struct btrail_index_entry *e)
{
    struct btrail_unpacker *unpacker = btrail_unpacker_new();
    struct btrail_block_header h, want;
    struct btrail_buf payload = { 0 };
    uint64_t address = e->end_index - 1;
    const uint8_t *bytes;
    uint32_t size = 0;
    int ret = btrail_file_load_chunk(f, e, &payload, unpacker, false, &h);

    bytes = true_payload(e->vcpu, e->first_index, &size, &want);
    if (!ret) {
        g_assert_nonnull(bytes);
        g_assert_cmpmem(payload.data, payload.len, bytes, size);
        g_assert_cmpuint(e->end_index, ==, want.end_index);
        g_assert_cmpuint(e->records, ==, want.records);
        g_assert_cmpuint(e->events, ==, want.events);
        g_assert_cmphex(e->cr3, ==, want.cr3);
        g_assert_cmpuint(e->switches, ==, want.switches.n);
    }
    /* A record of the sample goes to its index.  What may have run has. */
    if (bytes && e->end_index == want.end_index) {
        g_assert_cmpint(btrail_file_ran(f, e, &address, 1), !=,
                        BTRAIL_RAN_NONE);
    }
    btrail_unpacker_free(unpacker);
    btrail_buf_free(&payload);
    return !ret;
}

static unsigned check_sideband(const struct btrail_file *f,
                               const struct btrail_index_entry *e)
{
    struct btrail_sideband_info info, said, want;
    uint8_t bytes[SAMPLE_SIDEBAND_MAX];
    void *data;

    if (btrail_file_read_sideband(f, e, &info, &data, NULL)) {
        return 0;
    }
    btrail_index_entry_info(e, &said);
    for (unsigned i = 0; i < 2 * CHUNKS; i++) {
        sample_sideband(i, &want, bytes);
        if (want.size == info.size && !memcmp(data, bytes, info.size)) {
            g_assert_cmpuint(said.kind, ==, want.kind);
            g_assert_cmpuint(said.time, ==, want.time);
            g_assert_cmpuint(said.size, ==, want.size);
            free(data);
            return 1;
        }
    }
    g_assert_not_reached();
}

/* Returns how many chunks can be read. */
static unsigned check_file(const struct btrail_file *f)
{
    unsigned n = 0;

    for (unsigned s = 0; s < f->streams->len; s++) {
        const GArray *chunks = g_array_index(f->streams,
                                             struct btrail_trace_stream,
                                             s).chunks;
        uint64_t end = 0;

        for (unsigned i = 0; i < chunks->len; i++) {
            const struct btrail_index_entry *e = btrail_entry(chunks, i);

            g_assert_cmpuint(e->first_index, >=, end);
            end = e->end_index;
            n += check_data(f, e);
        }
    }
    for (unsigned i = 0; i < f->sideband->len; i++) {
        n += check_sideband(f, btrail_entry(f->sideband, i));
    }
    return n;
}

/* All that can be read of a file that has something wrong */
static unsigned check_bytes(const struct bytes *b, bool *indexed)
{
    struct btrail_file *f;
    unsigned n;

    g_assert_cmpint(open_bytes(&f, b), ==, 0);
    n = check_file(f);
    *indexed = f->status.indexed;
    btrail_file_close(f);
    return n;
}

/* With the index and without it, a file has the same. */
static void test_scan(void)
{
    struct bytes cut = copy_of(&whole);
    struct btrail_file *a, *b;
    bool indexed;
    unsigned all = check_bytes(&whole, &indexed);

    g_assert_true(indexed);
    g_assert_cmpuint(all, >=, 3 * CHUNKS);
    g_assert_cmpint(open_bytes(&a, &whole), ==, 0);
    cut.size--;
    g_assert_cmpuint(check_bytes(&cut, &indexed), ==, all);
    g_assert_false(indexed);
    g_assert_cmpint(open_bytes(&b, &cut), ==, 0);
    g_assert_true(a->status.complete);
    g_assert_false(b->status.complete);
    g_assert_cmpuint(a->chunks, ==, b->chunks);
    g_assert_cmpuint(a->metas->len, ==, 1);
    g_assert_cmpuint(b->metas->len, ==, 1);
    for (unsigned s = 0; s < 2; s++) {
        const GArray *x = g_array_index(a->streams, struct btrail_trace_stream,
                                        s).chunks;
        const GArray *y = g_array_index(b->streams, struct btrail_trace_stream,
                                        s).chunks;

        g_assert_cmpmem(x->data, x->len * sizeof(struct btrail_index_entry),
                        y->data, y->len * sizeof(struct btrail_index_entry));
    }
    btrail_file_close(a);
    btrail_file_close(b);
    g_free(cut.data);
}

/* Bytes of the index are others; its checksum is right. */
static void test_index(void)
{
    GRand *rand = g_rand_new_with_seed(1);
    unsigned i = first_of(&whole, BTRAIL_CHUNK_INDEX), taken = 0;
    uint32_t size = whole.places[i].chunk.size;

    for (unsigned round = 0; round < 1000; round++) {
        struct bytes b = copy_of(&whole);
        uint8_t *payload = payload_of(&b, i);
        bool indexed;

        for (int k = g_rand_int_range(rand, 1, 3); k--;) {
            payload[g_rand_int_range(rand, 0, (gint32)size)] ^= (uint8_t)(
                1 << g_rand_int_range(rand, 0, 8));
        }
        sign(&b, i);
        check_bytes(&b, &indexed);
        taken += indexed;
        g_free(b.data);
    }
    /* Readers go by it in many of these cases. */
    g_assert_cmpuint(taken, >, 100);
    g_rand_free(rand);
}

/* Two entries have the places of each other, and those of one chunk. */
static void test_swapped(void)
{
    unsigned i = first_of(&whole, BTRAIL_CHUNK_INDEX);
    const uint8_t *p = payload_of(&whole, i), *end;
    size_t entries[MOST];
    unsigned n = 0;
    g_autoptr(GArray) roots = btrail_roots_new();

    end = p + whole.places[i].chunk.size;
    while (p < end) {
        struct btrail_index_entry e;

        entries[n++] = (size_t)(p - payload_of(&whole, i));
        p = btrail_index_entry_get(p, end, &e, roots);
        g_assert_nonnull(p);
    }
    for (unsigned x = 0; x < n; x++) {
        for (unsigned y = 0; y < n; y++) {
            struct bytes b = copy_of(&whole);
            uint8_t *payload = payload_of(&b, i);
            bool indexed;

            /* Offset and size, which are the first 12 bytes */
            memcpy(payload + entries[x], payload_of(&whole, i) + entries[y],
                   12);
            sign(&b, i);
            check_bytes(&b, &indexed);
            memcpy(payload + entries[y], payload_of(&whole, i) + entries[x],
                   12);
            sign(&b, i);
            check_bytes(&b, &indexed);
            g_assert_cmpint(indexed, ==, x == y);
            g_free(b.data);
        }
    }
}

/* A chunk that is not of the type that the index says */
static void test_type(void)
{
    static const unsigned types[] = {
        BTRAIL_CHUNK_META, BTRAIL_CHUNK_DATA, BTRAIL_CHUNK_INDEX, 77,
    };
    bool indexed;
    unsigned all = check_bytes(&whole, &indexed);

    for (unsigned i = 0; i < G_N_ELEMENTS(types); i++) {
        struct bytes b = copy_of(&whole);
        unsigned k = first_of(&b, BTRAIL_CHUNK_SIDEBAND);

        b.places[k].chunk.type = (uint16_t)types[i];
        sign(&b, k);
        g_assert_cmpuint(check_bytes(&b, &indexed), ==, all - 1);
        g_assert_true(indexed);
        g_free(b.data);
    }
}

/* What the end says of the index must be so. */
static void test_end(void)
{
    bool indexed;
    unsigned all = check_bytes(&whole, &indexed);

    for (unsigned i = 0; i < 4; i++) {
        struct bytes b = copy_of(&whole);
        unsigned k = first_of(&b, BTRAIL_CHUNK_END);
        struct btrail_end end;
        struct btrail_file *f;

        btrail_end_get(payload_of(&b, k), &end);
        end.entries += i == 0;
        end.entries -= i == 1;
        end.index_offset += i == 2 ? 1 : i == 3 ? b.size : 0;
        btrail_end_put(payload_of(&b, k), &end);
        sign(&b, k);
        g_assert_cmpuint(check_bytes(&b, &indexed), ==, all);
        g_assert_false(indexed);
        /* It was closed properly all the same. */
        g_assert_cmpint(open_bytes(&f, &b), ==, 0);
        g_assert_true(f->status.complete);
        btrail_file_close(f);
        g_free(b.data);
    }
}

/* An end that is not at the end ends nothing. */
static void test_more(void)
{
    struct bytes b = copy_of(&whole);
    struct btrail_file *f;

    b.data = g_realloc(b.data, b.size + 1);
    b.data[b.size++] = 0;
    g_assert_cmpint(open_bytes(&f, &b), ==, 0);
    g_assert_false(f->status.indexed);
    g_assert_false(f->status.complete);
    btrail_file_close(f);
    g_free(b.data);
}

/* Description that is no text is left out, with an index and without. */
static void test_meta(void)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        struct bytes b = copy_of(&whole);
        unsigned k = first_of(&b, BTRAIL_CHUNK_META);
        struct btrail_file *f;

        payload_of(&b, k)[1] = 0xff;
        sign(&b, k);
        b.size -= cut;
        g_assert_cmpint(open_bytes(&f, &b), ==, 0);
        g_assert_cmpint(f->status.indexed, ==, !cut);
        g_assert_cmpuint(f->metas->len, ==, 0);
        g_assert_cmpuint(f->status.bad_chunks, ==, 1);
        btrail_file_close(f);
        g_free(b.data);
    }
}

/* The same file by another name, and another one */
static void test_is(void)
{
    g_autofree char *link = g_strdup_printf("%s.link", path);
    g_autofree char *other = g_strdup_printf("%s.other", path);
    struct btrail_file *f;

    g_assert_cmpint(open_bytes(&f, &whole), ==, 0);
    g_assert_cmpint(symlink(path, link), ==, 0);
    g_assert_true(g_file_set_contents(other, (const char *)whole.data,
                                      (gssize)whole.size, NULL));
    g_assert_true(btrail_file_is(f, path));
    g_assert_true(btrail_file_is(f, link));
    g_assert_false(btrail_file_is(f, other));
    g_assert_false(btrail_file_is(f, "/nonexistent"));
    btrail_file_close(f);
}

int main(int argc, char **argv)
{
    const struct btrail_writer_options options = { 0 };
    gsize size;
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    sample_write_sideband(path, CHUNKS, &options);
    g_assert_true(g_file_get_contents(path, (char **)&whole.data, &size,
                                      NULL));
    whole.size = size;
    find_chunks(&whole);
    g_test_add_func("/file/scan", test_scan);
    g_test_add_func("/file/index", test_index);
    g_test_add_func("/file/swapped", test_swapped);
    g_test_add_func("/file/type", test_type);
    g_test_add_func("/file/end", test_end);
    g_test_add_func("/file/more", test_more);
    g_test_add_func("/file/meta", test_meta);
    g_test_add_func("/file/is", test_is);
    ret = g_test_run();
    sample_remove(path);
    g_free(whole.data);
    return ret;
}
