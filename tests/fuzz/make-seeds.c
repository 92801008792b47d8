/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: fuzz-make-seeds DIR
 *
 * Writes the seeds of the fuzz targets into DIR/trace, DIR/transport and
 * DIR/stream.  To be run again when the format or the transport changes.
 */

#include <glib/gstdio.h>
#include <stdlib.h>

#include "trace-samples.h"

static void write_file(const char *dir, const char *name, const void *bytes,
                       size_t len)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);

    g_mkdir_with_parents(dir, 0777);
    g_assert_true(g_file_set_contents(path, bytes, len, NULL));
}

static void make_traces(const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "two-vcpus", NULL);
    g_autofree char *one = g_build_filename(dir, "one-chunk", NULL);
    char *bytes;
    gsize len;

    g_mkdir_with_parents(dir, 0777);
    sample_write(path, 3);
    sample_write(one, 1);
    g_assert_true(g_file_get_contents(path, &bytes, &len, NULL));
    write_file(dir, "cut", bytes, len * 2 / 3);
    g_free(bytes);
}

/* A slab as the stream target wants it */
static void add_slab(GByteArray *a, uint64_t first_index, uint64_t cr3,
                     unsigned n_records, const struct btrail_event *events,
                     unsigned n_events, bool flush)
{
    struct btrail_slab_desc desc = {
        .first_index = first_index,
        .cr3 = cr3,
        .records = n_records,
        .events = n_events,
        .reserved = { flush },
    };
    unsigned i;

    g_byte_array_append(a, (uint8_t *)&desc, sizeof(desc));
    g_byte_array_append(a, (const uint8_t *)events,
                        n_events * sizeof(*events));
    for (i = 0; i < n_records; i++) {
        struct btrail_record r = { 0x1000 + i % 3 * 8, 0x2000 + i % 3, 0 };

        g_byte_array_append(a, (uint8_t *)&r, sizeof(r));
    }
}

static void make_streams(const char *dir)
{
    static const struct btrail_event events[] = {
        { 0, BTRAIL_EVENT_TIME, 0, 0, { 1000, 1, BTRAIL_NO_ICOUNT } },
        { 5, BTRAIL_EVENT_CR3, 0, 0, { 0x2000 } },
    }, gaps[] = {
        { 20, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 0, { 10 } },
        { 20, BTRAIL_EVENT_TIME, 0, 0, { 2000, 2, 50 } },
        { 27, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 0, { 2 } },
        { 32, BTRAIL_EVENT_END, BTRAIL_END_STOPPED, 0, { 3000 } },
    };
    GByteArray *a = g_byte_array_new();

    add_slab(a, 0, 0x1000, 10, events, 2, true);
    add_slab(a, 20, 0x2000, 10, gaps, 4, false);
    write_file(dir, "slabs", a->data, a->len);
    g_byte_array_set_size(a, 0);
    add_slab(a, 7, 0x1000, 3, NULL, 0, false);
    add_slab(a, 30, 0x3000, 63, NULL, 0, false);
    write_file(dir, "holes", a->data, a->len);
    g_byte_array_unref(a);
}

static void make_transports(const char *dir)
{
    struct btrail_shm_header h = {
        .magic = BTRAIL_SHM_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .header_size = sizeof(h),
        .total_size = 256 << 10,
        .vcpu_offset = sizeof(h),
        .vcpu_stride = 40 << 10,
        .desc_offset = sizeof(struct btrail_shm_vcpu),
        .slab_offset = sizeof(struct btrail_shm_vcpu) +
                       2 * sizeof(struct btrail_slab_desc),
        .vcpus = 2,
        .slabs = 2,
        .slab_size = BTRAIL_MIN_SLAB_SIZE,
        .records_per_slab = 20,
        .event_offset = 480,
        .events_per_slab = 8,
        .record_size = sizeof(struct btrail_record),
        .event_size = sizeof(struct btrail_event),
        .producer = BTRAIL_PRODUCER_TCG,
        .privilege = BTRAIL_PRIVILEGE_USER,
        .session = "seed",
    };
    struct btrail_shm_vcpu vcpu = {
        .head = 1, .records = 20, .state = BTRAIL_VCPU_RUNNING,
    };
    struct btrail_slab_desc descs[2] = {
        { .first_index = 0, .cr3 = 0x1000, .records = 20, .events = 2 },
    };
    struct btrail_record records[20];
    struct btrail_event events[2] = {
        { 0, BTRAIL_EVENT_TIME, 0, 0, { 1000, 1, BTRAIL_NO_ICOUNT } },
        { 20, BTRAIL_EVENT_END, BTRAIL_END_STOPPED, 0, { 3000 } },
    };
    GByteArray *a = g_byte_array_new();
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(records); i++) {
        records[i] = (struct btrail_record) { i % 3, i % 5, 0 };
    }
    g_byte_array_append(a, (uint8_t *)&h, sizeof(h));
    g_byte_array_append(a, (uint8_t *)&vcpu, sizeof(vcpu));
    g_byte_array_append(a, (uint8_t *)descs, sizeof(descs));
    g_byte_array_append(a, (uint8_t *)records, sizeof(records));
    g_byte_array_append(a, (uint8_t *)events, sizeof(events));
    write_file(dir, "slab", a->data, a->len);
    g_byte_array_unref(a);
}

int main(int argc, char **argv)
{
    g_autofree char *trace = NULL, *stream = NULL, *transport = NULL;

    if (argc != 2) {
        return 2;
    }
    trace = g_build_filename(argv[1], "trace", NULL);
    stream = g_build_filename(argv[1], "stream", NULL);
    transport = g_build_filename(argv[1], "transport", NULL);
    make_traces(trace);
    make_streams(stream);
    make_transports(transport);
    return 0;
}
