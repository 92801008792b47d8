/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: fuzz-make-seeds DIR
 *
 * Writes the seeds of the fuzz targets into folders of DIR named after them.
 * To be run again when the format or the transport changes.  Traces of older
 * codecs stay, as NAME-codec3 and the like.
 */

#include <glib/gstdio.h>

#include "lib/agent/code-piece.h"
#include "backtrail/names.h"
#include "fake-linux.h"
#include "fake-space.h"
#include "lib/agent/parts.h"
#include "producer.h"
#include "pt-samples.h"
#include "snapshot-samples.h"
#include "trace-samples.h"
#include "name-samples.h"

static void write_file(const char *dir, const char *name, const void *bytes,
                       size_t len)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);

    g_mkdir_with_parents(dir, 0777);
    g_assert_true(g_file_set_contents(path, bytes, len, NULL));
}

/* A trace with code, of which little can be compressed away */
static void make_code(const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "code", NULL);
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    struct btrail_code_builder *b = btrail_code_builder_new();
    static const struct btrail_code_entry entries[] = {
        { 0, 0, 0, 0, 0x400000, 0x1000, 1 },
        { 0, 1, 21, 0x1000, 0x400000, 0x1000, 2 },
        { 0, 2, 60, 0, 40, 0, 0 },
        { 0, 3, 60, 0x2000, 0x401000, 0x1000, 3 },
        { 1, 0, 0, 0x1000, 0xfffffffffffff000, 0x2000, 1 },
    };
    uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0x90 };
    g_autofree uint8_t *data = NULL;
    struct btrail_writer *w;
    size_t size;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(entries); i++) {
        btrail_code_builder_entry(b, &entries[i]);
    }
    for (i = 1; i <= 3; i++) {
        page[7] = i & 1;
        btrail_code_builder_content(b, i, page);
    }
    data = btrail_code_builder_take(b, &size);
    info.size = size;
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    btrail_code_builder_free(b);
}

/* A trace whose records have instruction counts */
static void make_counts(const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "counts", NULL);
    const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .data = { 1000, 2, 3 },
    };
    struct btrail_record r[60];
    struct btrail_slab slab = {
        .records = r, .n_records = G_N_ELEMENTS(r), .events = &time,
        .n_events = 1,
    };
    struct btrail_writer *w;

    for (unsigned i = 0; i < G_N_ELEMENTS(r); i++) {
        r[i].from = 0x1000 + i % 7 * 32;
        r[i].to = 0x1000 + (i + 1) % 7 * 32 - i % 3;
        r[i].flags = (UINT64_C(5) + i * 4 + i / 9)
                     << BTRAIL_RECORD_ICOUNT_SHIFT;
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* A trace whose events repeat earlier ones, and go on as they did */
static void make_events(const char *dir)
{
    static const uint16_t types[] = {
        BTRAIL_EVENT_TIME, BTRAIL_EVENT_TASK, BTRAIL_EVENT_CR3,
        BTRAIL_EVENT_WAKE, BTRAIL_EVENT_PAUSE, BTRAIL_EVENT_RESUME,
    };
    g_autofree char *path = g_build_filename(dir, "events", NULL);
    struct btrail_record r[60];
    struct btrail_event events[36];
    struct btrail_slab slab = {
        .records = r, .n_records = G_N_ELEMENTS(r), .events = events,
        .n_events = G_N_ELEMENTS(events),
    };
    struct btrail_writer *w;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(r); i++) {
        r[i] = (struct btrail_record) { 0x1000 + i % 4 * 32, 0x1010, 0 };
    }
    for (i = 0; i < G_N_ELEMENTS(events); i++) {
        struct btrail_event *e = &events[i];
        unsigned round = i / G_N_ELEMENTS(types);

        *e = (struct btrail_event) {
            .index = i, .type = types[i % G_N_ELEMENTS(types)],
        };
        switch (e->type) {
        case BTRAIL_EVENT_TIME:
            e->data[0] = 1000000 + i * 80000;
            e->data[1] = e->data[0] * 5 / 2 + round % 2;
            e->data[2] = BTRAIL_NO_ICOUNT;
            break;
        case BTRAIL_EVENT_TASK:
            e->data[1] = 'a' + round % 3;
            /* fall through */
        case BTRAIL_EVENT_WAKE:
            e->data[0] = UINT64_C(0x100000001) * (10 + round % 3);
            break;
        case BTRAIL_EVENT_CR3:
            e->data[0] = 0x1000 * (1 + round % 2);
            break;
        default:
            e->reason = BTRAIL_PAUSE_VM_STOP;
            e->data[0] = 1000000 + i * 80000;
        }
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void make_traces(const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "two-vcpus", NULL);
    g_autofree char *one = g_build_filename(dir, "one-chunk", NULL);
    g_autofree char *sideband = g_build_filename(dir, "sideband", NULL);
    struct btrail_writer_options options = { BTRAIL_WRITER_REPLACE };
    char *bytes;
    gsize len;

    g_mkdir_with_parents(dir, 0777);
    sample_write(path, 3);
    sample_write(one, 1);
    sample_write_sideband(sideband, 4, &options);
    g_assert_true(g_file_get_contents(path, &bytes, &len, NULL));
    write_file(dir, "cut", bytes, len * 2 / 3);
    g_free(bytes);
    make_counts(dir);
    make_events(dir);
}

/* The files of a trace that was split, as the merge target wants them */
static void make_parts(const char *dir)
{
    static const struct {
        const char *name;
        unsigned part_size, ring_size;
        bool sideband;
    } traces[] = {
        { "parts", 1500, 0, false }, { "ring", 0, 8000, false },
        { "sideband", 2500, 0, true }, { "sideband-ring", 0, 20000, true },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(traces); i++) {
        struct btrail_writer_options options = {
            .part_size = traces[i].part_size,
            .ring_size = traces[i].ring_size,
        };
        char *path = sample_path();
        g_autoptr(GArray) parts = NULL;
        GByteArray *a = g_byte_array_new();
        uint32_t part;

        if (traces[i].sideband) {
            sample_write_sideband(path, 40, &options);
        } else {
            sample_write_with(path, 8, &options);
        }
        parts = btrail_parts_find(path);
        for (part = 0; part <= parts->len && part < 4; part++) {
            g_autofree char *name = btrail_part_path(
                path, part ? g_array_index(parts, uint32_t, part - 1) : 0);
            g_autofree char *bytes = NULL;
            uint32_t size;
            gsize len;

            if (!g_file_get_contents(name, &bytes, &len, NULL)) {
                continue;
            }
            size = GUINT32_TO_LE(len);
            g_byte_array_append(a, (uint8_t *)&size, sizeof(size));
            g_byte_array_append(a, (uint8_t *)bytes, len);
        }
        write_file(dir, traces[i].name, a->data, a->len);
        g_byte_array_unref(a);
        sample_remove(path);
    }
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
        /* Half of the slabs have instruction counts. */
        struct btrail_record r = {
            0x1000 + i % 3 * 8, 0x2000 + i % 3, flush ? 0 :
            (UINT64_C(100) + i * i % 13) << BTRAIL_RECORD_ICOUNT_SHIFT,
        };

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

#define RECORDS     20
#define SLABS       2
#define VCPU_OFFSET 320
#define VCPU_STRIDE (40 << 10)
#define SLAB_OFFSET (sizeof(struct btrail_shm_vcpu) + \
                     SLABS * sizeof(struct btrail_slab_desc))
#define CODE_OFFSET (SLAB_OFFSET + SLABS * BTRAIL_MIN_SLAB_SIZE)
#define CODE_PAGE_OFFSET (CODE_OFFSET + sizeof(struct btrail_shm_code) + \
                          sizeof(struct btrail_code_item))
#define EVENT_OFFSET (RECORDS * sizeof(struct btrail_record))

static void add_write(GByteArray *a, uint32_t offset, const void *bytes,
                      uint16_t len)
{
    uint8_t action = PRODUCER_WRITE;

    g_byte_array_append(a, &action, 1);
    offset = GUINT32_TO_LE(offset);
    g_byte_array_append(a, (uint8_t *)&offset, sizeof(offset));
    len = GUINT16_TO_LE(len);
    g_byte_array_append(a, (uint8_t *)&len, sizeof(len));
    g_byte_array_append(a, bytes, GUINT16_FROM_LE(len));
}

static void add_send(GByteArray *a, unsigned fds, const void *bytes,
                     unsigned len)
{
    uint8_t head[] = { PRODUCER_SEND, fds, len };

    g_byte_array_append(a, head, sizeof(head));
    g_byte_array_append(a, bytes, len);
}

static struct btrail_msg message(uint16_t type, uint32_t reason,
                                 uint64_t value)
{
    return (struct btrail_msg) {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = type,
        .reason = reason,
        .value = value,
    };
}

/* The start of a producer: its header and HELLO, in @pieces */
static GByteArray *new_producer(uint32_t policy, unsigned pieces)
{
    const struct btrail_shm_header h = {
        .magic = BTRAIL_SHM_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .header_size = sizeof(h),
        .total_size = PRODUCER_MEMORY,
        .vcpu_offset = VCPU_OFFSET,
        .vcpu_stride = VCPU_STRIDE,
        .desc_offset = sizeof(struct btrail_shm_vcpu),
        .slab_offset = SLAB_OFFSET,
        .vcpus = 2,
        .slabs = SLABS,
        .slab_size = BTRAIL_MIN_SLAB_SIZE,
        .records_per_slab = RECORDS,
        .event_offset = EVENT_OFFSET,
        .events_per_slab = 8,
        .record_size = sizeof(struct btrail_record),
        .event_size = sizeof(struct btrail_event),
        .producer = BTRAIL_PRODUCER_TCG,
        .policy = policy,
        .privilege = BTRAIL_PRIVILEGE_USER,
        .capture = "seed",
        .code_offset = CODE_OFFSET,
        .code_page_offset = CODE_PAGE_OFFSET,
        .code_items = 1,
    };
    struct btrail_msg hello = message(BTRAIL_MSG_HELLO, 0, PRODUCER_MEMORY);
    unsigned step = sizeof(hello) / pieces, i;
    GByteArray *a = g_byte_array_new();

    add_write(a, 0, &h, sizeof(h));
    for (i = 0; i < pieces; i++) {
        add_send(a, i ? 0 : 3, (uint8_t *)&hello + i * step, step);
    }
    return a;
}

static void add_vcpu(GByteArray *a, unsigned vcpu, uint64_t head,
                     uint64_t tail, uint32_t state)
{
    struct btrail_shm_vcpu control = {
        .head = head, .tail = { tail }, .records = head * RECORDS,
        .state = state,
    };

    add_write(a, VCPU_OFFSET + vcpu * VCPU_STRIDE, &control, sizeof(control));
}

static void put_slab(GByteArray *a, unsigned vcpu, uint64_t number,
                     uint64_t first_index, unsigned n_records,
                     const struct btrail_event *events, unsigned n_events)
{
    uint32_t area = VCPU_OFFSET + vcpu * VCPU_STRIDE;
    uint32_t slot = number % SLABS;
    uint32_t slab = area + SLAB_OFFSET + slot * BTRAIL_MIN_SLAB_SIZE;
    struct btrail_slab_desc desc = {
        .first_index = first_index,
        .cr3 = 0x1000,
        .records = n_records,
        .events = n_events,
    };
    struct btrail_record records[RECORDS];
    unsigned i;

    for (i = 0; i < n_records; i++) {
        records[i] = (struct btrail_record) { i % 3, i % 5, 0 };
    }
    add_write(a, area + sizeof(struct btrail_shm_vcpu) + slot * sizeof(desc),
              &desc, sizeof(desc));
    add_write(a, slab, records, n_records * sizeof(*records));
    add_write(a, slab + EVENT_OFFSET, events, n_events * sizeof(*events));
}

static void write_seed(const char *dir, const char *target, const char *name,
                       const GByteArray *a)
{
    g_autofree char *folder = g_build_filename(dir, target, NULL);

    write_file(folder, name, a->data, a->len);
}

static void write_producer(const char *dir, const char *name, GByteArray *a)
{
    write_seed(dir, "connection", name, a);
    write_seed(dir, "session", name, a);
    g_byte_array_unref(a);
}

static void make_producers(const char *dir)
{
    static const struct btrail_event first[] = {
        { 0, BTRAIL_EVENT_TIME, 0, 0, { 1000, 1, BTRAIL_NO_ICOUNT } },
        { 5, BTRAIL_EVENT_CR3, 0, 0, { 0x2000 } },
        { 20, BTRAIL_EVENT_CR3, 0, 0, { 0x1000 } },
    }, second[] = {
        { 30, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 0, { 10 } },
        { 30, BTRAIL_EVENT_TIME, 0, 0, { 2000, 2, 50 } },
        { 35, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_VM_STOP, 0, { 2500 } },
        { 35, BTRAIL_EVENT_RESUME, BTRAIL_PAUSE_VM_STOP, 0, { 2600 } },
        { 40, BTRAIL_EVENT_END, BTRAIL_END_STOPPED, 0, { 3000 } },
    }, only[] = {
        { 7, BTRAIL_EVENT_TIME, 0, 0, { 1000, 1, 1 } },
        { 17, BTRAIL_EVENT_END, BTRAIL_END_SHUTDOWN, 0, { 3000 } },
    };
    static const uint8_t garbage[] = "garbage";
    static const struct btrail_shm_code code = {
        .head = 3, .tail = { 2 }, .lost_from = 7,
    };
    static const struct btrail_code_item item = {
        .type = BTRAIL_CODE_BYTES, .number = 5,
    };
    struct btrail_msg end = message(BTRAIL_MSG_END, BTRAIL_END_STOPPED, 0);
    struct btrail_slab_desc changed = { .records = 9, .events = UINT32_MAX };
    uint8_t later = PRODUCER_LATER;
    GByteArray *a;

    /* All in order */
    a = new_producer(BTRAIL_OVERFLOW_DROP, 1);
    put_slab(a, 0, 0, 0, 20, first, G_N_ELEMENTS(first));
    put_slab(a, 0, 1, 30, 10, second, G_N_ELEMENTS(second));
    put_slab(a, 1, 0, 7, 10, only, G_N_ELEMENTS(only));
    add_vcpu(a, 0, 2, 0, BTRAIL_VCPU_ENDED);
    add_vcpu(a, 1, 1, 0, BTRAIL_VCPU_ENDED);
    add_send(a, 0, &end, sizeof(end));
    write_producer(dir, "two-vcpus", a);

    /* Lost, with HELLO in pieces, and then something that is no message */
    a = new_producer(BTRAIL_OVERFLOW_PAUSE, 4);
    put_slab(a, 0, 0, 0, 20, first, G_N_ELEMENTS(first));
    add_vcpu(a, 0, 1, 0, BTRAIL_VCPU_WAITING);
    add_send(a, 0, garbage, sizeof(garbage));
    write_producer(dir, "lost", a);

    /* The memory changes while it is read. */
    a = new_producer(BTRAIL_OVERFLOW_PAUSE, 1);
    put_slab(a, 0, 0, 0, 20, first, G_N_ELEMENTS(first));
    add_vcpu(a, 0, 1, 0, BTRAIL_VCPU_RUNNING);
    g_byte_array_append(a, &later, 1);
    add_vcpu(a, 0, 1000, 999, BTRAIL_VCPU_LOSING);
    add_write(a, VCPU_OFFSET + sizeof(struct btrail_shm_vcpu), &changed,
              sizeof(changed));
    add_write(a, VCPU_OFFSET + SLAB_OFFSET + EVENT_OFFSET, second,
              sizeof(second));
    /* Whether a session gets to a record before that is a matter of luck. */
    write_seed(dir, "connection", "changes", a);
    g_byte_array_unref(a);

    /* Code: the last of three items */
    a = new_producer(BTRAIL_OVERFLOW_DROP, 1);
    add_write(a, VCPU_OFFSET + CODE_OFFSET, &code, sizeof(code));
    add_write(a, VCPU_OFFSET + CODE_OFFSET + sizeof(code), &item,
              sizeof(item));
    put_slab(a, 0, 0, 0, 20, first, G_N_ELEMENTS(first));
    put_slab(a, 0, 1, 30, 10, second, G_N_ELEMENTS(second));
    add_vcpu(a, 0, 2, 0, BTRAIL_VCPU_ENDED);
    add_send(a, 0, &end, sizeof(end));
    write_producer(dir, "code", a);

    /* The oldest slabs have been overwritten. */
    a = new_producer(BTRAIL_OVERFLOW_OVERWRITE, 1);
    put_slab(a, 0, 6, 120, 20, NULL, 0);
    put_slab(a, 0, 7, 140, 20, NULL, 0);
    add_vcpu(a, 0, 8, 0, BTRAIL_VCPU_RUNNING);
    add_send(a, 0, &end, sizeof(end));
    write_producer(dir, "overwritten", a);
}

static void make_monitors(const char *dir)
{
    static const char greeting[] =
        "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 13, \"minor\": 0, "
        "\"major\": 10}, \"package\": \"p\"}, \"capabilities\": [\"oob\"]}}\r\n"
        "{\"return\": {}, \"id\": 1}\r\n";
    static const char *const answers[][2] = {
        { "answer", "{\"return\": {\"name\": {\"name\": 5}}, \"id\": 2}\r\n" },
        { "event", "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, "
          "\"event\": \"STOP\"}\r\n"
          "{\"return\": [\"\\u00e4\\ud83d\\ude00\", -1.5e3, null, true], "
          "\"id\": 2}\r\n" },
        { "error", "{\"error\": {\"class\": \"CommandNotFound\", "
          "\"desc\": \"no\"}, \"id\": 2}\r\n" },
        { "cut", "{\"return\": {\"na" },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(answers); i++) {
        g_autofree char *text = g_strconcat(greeting, answers[i][1], NULL);

        write_file(dir, answers[i][0], text, strlen(text));
    }
}

/* A trace that has snapshots and symbols */
static void make_names(const char *dir)
{
    /* All of them; what is of modules, which is another one; both, changed */
    static const char *const symbols[] = {
        "ffffffff81000000 T _stext\nffffffffc0000000 t load\t[mod]\n",
        "ffffffffc0000000 t run\t[other]\nffffffffc0000080 e .end\t[other]\n",
        "ffffffff81000000 T _stext\nffffffff81000000 T alias\n"
        "ffffffffc0000000 t run\t[other]\nffffffffc0000090 e .end\t[other]\n",
    };
    static const char meta[] = "{\"tick_ns\":1}";
    static const char syscalls[] = "64 0 ffffffff81000010\n"
                                   "64 1 ffffffff81000010\n";
    static struct btrail_thread thread = { 7, 1, 5, "t" };
    static struct btrail_mapping mapping = { 0x1000, 0x3000, 0, 21, 3, "/f",
                                             (const uint8_t *)"id" };
    struct btrail_process p = {
        0x1000, 0x2000, 0x8000, 5, 90, 100, 0, 7, 1, 0, 2, "p", "/f", "p\0",
        1, 1, &thread, &mapping
    };
    g_autofree char *path = g_build_filename(dir, "names", NULL);
    struct btrail_record records[6] = { { 0xffffffff81000004, 0x1004, 0 } };
    struct btrail_event events[6];
    const struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = 6, .events = events,
        .n_events = 6,
    };
    struct btrail_writer *w;
    unsigned i;

    g_mkdir_with_parents(dir, 0777);
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (i = 0; i < 3; i++) {
        struct btrail_snapshot snapshot = { 90 + 100 * i, 100 + 100 * i,
                                    BTRAIL_SNAPSHOT_WHOLE, 1, &p };
        struct btrail_sideband_info info = { .time = snapshot.end };

        p.first = snapshot.begin;
        p.last = snapshot.end;
        p.pid += i == 2;
        p.flags = i == 1 ? BTRAIL_PROCESS_SEEN : 0;
        sample_snapshot(w, &snapshot);
        info.kind = BTRAIL_SIDEBAND_SYMBOLS;
        info.size = strlen(symbols[i]);
        g_assert_cmpint(btrail_writer_sideband(w, &info, symbols[i]), ==, 0);
        info.kind = BTRAIL_SIDEBAND_HELD;
        info.size = 0;
        info.time += 50;
        g_assert_cmpint(btrail_writer_sideband(w, &info, NULL), ==, 0);
        info.time = snapshot.end;
        /* The kernel is not seen for a while, or ends. */
        if (i) {
            const uint64_t known = GUINT64_TO_LE(snapshot.end + 70);

            info.kind = BTRAIL_SIDEBAND_ENDED;
            info.size = sizeof(known);
            info.time = snapshot.end + 60;
            g_assert_cmpint(btrail_writer_sideband(w, &info, &known), ==, 0);
            info.time = snapshot.end;
        }
        info.kind = BTRAIL_SIDEBAND_SYSCALLS;
        info.size = sizeof(syscalls) - 1;
        g_assert_cmpint(btrail_writer_sideband(w, &info, syscalls), ==, 0);
    }
    /* Records of all these times, with kernels and without */
    for (i = 0; i < 6; i++) {
        events[i] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_TIME,
            .data = { 95 + 50 * i, 0, BTRAIL_NO_ICOUNT },
        };
    }
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* What is in some pages of the guest, as writes of it */
static void put_pages(GByteArray *a, const struct fake_linux *f,
                      unsigned first, unsigned end)
{
    uint32_t at;

    for (at = first * GUEST_PAGE_SIZE; at < end * GUEST_PAGE_SIZE; at += 64) {
        uint8_t head[4] = { (uint8_t)at, (uint8_t)(at >> 8),
                            (uint8_t)(at >> 16), 64 };
        unsigned i;

        for (i = 0; i < 64 && !f->memory[at + i]; i++) {
            continue;
        }
        if (i < 64) {
            g_byte_array_append(a, head, sizeof(head));
            g_byte_array_append(a, f->memory + at, 64);
        }
    }
}

static void make_linux(const char *dir)
{
    static const uint8_t later[4] = { 0xff, 0xff, 0xff, 0 };
    static const uint16_t kinds[] = {
        0, FAKE_LIST, FAKE_SEARCH, FAKE_LIST | FAKE_SEARCH, FAKE_PTI,
        FAKE_PTI | FAKE_LIST, FAKE_PTI | FAKE_SEARCH,
        FAKE_PTI | FAKE_LIST | FAKE_SEARCH, FAKE_AFTER,
        FAKE_AFTER | FAKE_SEARCH, FAKE_AFTER | FAKE_UNSIGNED,
        FAKE_AFTER | FAKE_UNSIGNED | FAKE_SEARCH, FAKE_AFTER | FAKE_PLACE,
        FAKE_AFTER | FAKE_PLACE | FAKE_SEARCH,
        FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4,
        FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4 | FAKE_SEARCH, FAKE_32,
        FAKE_32 | FAKE_SEARCH, FAKE_32 | FAKE_PAE | FAKE_AFTER | FAKE_UNSIGNED,
        FAKE_32 | FAKE_PAE | FAKE_AFTER | FAKE_PLACE | FAKE_SEARCH,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const uint8_t head[2] = { (uint8_t)kinds[i], kinds[i] >> 8 };
        unsigned flags = kinds[i];
        g_autofree char *find = g_strdup_printf("find-%u", flags);
        g_autofree char *snapshot = g_strdup_printf("look-%u", flags);
        GByteArray *a = g_byte_array_new();
        struct fake_linux f;

        fake_linux_init(&f, flags);
        g_byte_array_append(a, head, sizeof(head));
        put_pages(a, &f, FAKE_NOTE, FAKE_STRUCTS);
        write_file(dir, find, a->data, a->len);
        /* The form of symbols makes no difference then. */
        if (flags < FAKE_AFTER) {
            g_byte_array_set_size(a, sizeof(head));
            g_byte_array_append(a, later, sizeof(later));
            put_pages(a, &f, FAKE_STRUCTS, FAKE_PAGES);
            write_file(dir, snapshot, a->data, a->len);
        }
        g_byte_array_unref(a);
        fake_linux_clear(&f);
    }
}

/* A library as it is in memory: of both classes, with either kind of table */
static void make_dynamic(const char *dir)
{
    static const struct {
        const char *name, *args;
    } kinds[] = {
        { "gnu", "-Wl,--hash-style=gnu" },
        { "sysv", "-Wl,--hash-style=sysv" },
        { "gnu-32", "-m32 -Wl,--hash-style=gnu" },
        { "sysv-32", "-m32 -Wl,--hash-style=sysv" },
    };
    const uint64_t base = UINT64_C(0x10000000);
    g_autofree char *library = g_build_filename(g_get_tmp_dir(),
                                                "make-seeds.so", NULL);
    unsigned i, k;

    for (i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *command = g_strdup_printf(
            "gcc -shared -fPIC -O1 -nostdlib -s -Wl,-z,noseparate-code "
            "-Wl,-z,norelro -Wl,--build-id=none %s -o %s " SAMPLE,
            kinds[i].args, library);
        g_autoptr(GByteArray) a = g_byte_array_new();
        g_autofree char *file = NULL;
        struct fake_space space;
        uint64_t root;
        gsize size;
        int status;

        g_assert_true(g_spawn_command_line_sync(command, NULL, NULL, &status,
                                                NULL) && !status);
        g_assert_true(g_file_get_contents(library, &file, &size, NULL));
        fake_space_init(&space, 64);
        root = fake_space_root(&space);
        g_assert_true(fake_space_load(&space, root, base, file, size));
        /* The segment that can be written is after the first one. */
        for (k = 0; k < 3; k++) {
            g_byte_array_append(a, fake_space_page(&space, root, base +
                                                   k * GUEST_PAGE_SIZE),
                                GUEST_PAGE_SIZE);
        }
        while (a->len && !a->data[a->len - 1]) {
            g_byte_array_set_size(a, a->len - 1);
        }
        write_file(dir, kinds[i].name, a->data, a->len);
        fake_space_clear(&space);
    }
    g_remove(library);
}

/* Files as they are in the page cache: a library, stripped or not, a program */
static void make_files(const char *dir)
{
    static const struct {
        const char *name, *args;
    } kinds[] = {
        { "library", "-shared" },
        { "stripped", "-shared -s" },
        { "sysv", "-shared -s -Wl,--hash-style=sysv" },
        { "program", "-static -Wl,-e,sample_a "
                     "-Wl,--unresolved-symbols=ignore-all" },
    };
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "make-seeds.so",
                                             NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *command = g_strdup_printf(
            "gcc -fPIC -O1 -nostdlib -Wl,-z,noseparate-code -Wl,-z,norelro "
            "-Wl,--build-id=none %s -o %s " SAMPLE, kinds[i].args, path);
        g_autofree char *file = NULL;
        gsize size;
        int status;

        g_assert_true(g_spawn_command_line_sync(command, NULL, NULL, &status,
                                                NULL) && !status);
        g_assert_true(g_file_get_contents(path, &file, &size, NULL));
        write_file(dir, kinds[i].name, file, size);
    }
    g_remove(path);
}

/*
 * What comes through a control connection, byte by byte.  The other seeds of
 * this target are texts, written by hand.
 */
static void make_control(const char *dir)
{
    static const char *const messages[] = {
        "{\"type\":\"guest\",\"vcpus\":1}",
        /* Answered at once, not by a thread */
        "{\"type\":\"command\",\"id\":1,\"command\":{\"do\":\"status\"}}",
    };
    g_autoptr(GByteArray) a = g_byte_array_new();
    unsigned i;

    g_byte_array_append(a, (const guint8 *)"R", 1);
    for (i = 0; i < G_N_ELEMENTS(messages); i++) {
        const struct btrail_msg head = {
            .magic = BTRAIL_MSG_MAGIC,
            .version = BTRAIL_TRANSPORT_VERSION,
            .type = BTRAIL_MSG_JSON,
            .value = strlen(messages[i]),
        };

        g_byte_array_append(a, (const guint8 *)&head, sizeof(head));
        g_byte_array_append(a, (const guint8 *)messages[i],
                            strlen(messages[i]));
    }
    write_seed(dir, "control", "bytes", a);
}

/* What a guest says: see words.c for what is in front */
static void make_words(const char *dir)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 8, 8 }, { 9000, 0, 0 }, { 0 },
    };
    struct {
        uint32_t tsc;
        uint16_t root;
        uint16_t vcpu;
        uint64_t address;
    } reports[] = {
        { 100, 1, 0, 0 }, { 6000100, 1, 0, 0 }, { 7500, 7, 0, 0 },
        { 8500, 8, 0, 0 }, { 7500, 7, 0, 0x10000 }, { 8500, 9, 0, 0x50000 },
    };
    uint8_t n = G_N_ELEMENTS(reports);
    g_autoptr(GByteArray) said = g_byte_array_new();

    g_byte_array_append(said, &n, 1);
    g_byte_array_append(said, (const void *)reports, sizeof(reports));
    say_hello(said, SAMPLE_NONCE, BTRAIL_GUEST_HAS_SWITCHES);
    write_seed(dir, "words", "hello", said);
    say_listing(said, 1, false);
    say_process(said, 2, 7, "sh");
    say_mapping(said, 2, 7, 0x10000, 4, "/bin/sh");
    say_thread(said, 2, 7, 17);
    say_kernel_thread(said, 3, 2);
    say_listing(said, 4, true);
    write_seed(dir, "words", "list", said);
    say_fork(said, 6000, 7, 8);
    say_name(said, 7000, 8, true, "cat");
    say_mapping(said, 7100, 8, 0x50000, 4, "/bin/cat");
    say_name(said, 7200, 7, false, "bash");
    say_exit(said, 9000, 8, 8);
    say_switches(said, 0, cpu0);
    say_symbols(said, 3, "ffffffff81000000 T _text\n");
    say_up_to(said, 10000000);
    write_seed(dir, "words", "all", said);
    /* In between another conversation */
    say_hello(said, SAMPLE_NONCE, BTRAIL_GUEST_HAS_PTI);
    say_listing(said, 10000001, false);
    say_listing(said, 10000002, true);
    say_up_to(said, 10000003);
    write_seed(dir, "words", "again", said);
    /* What a process has compiled: twice at the same address, and over again */
    say_listing(said, 10000004, false);
    say_process(said, 10000005, 7, "node");
    say_mapping(said, 10000005, 7, 0x10000, 4, "/bin/node");
    say_listing(said, 10000006, true);
    say_functions(said, 10000007, 7, BTRAIL_GUEST_FUNCTIONS_BEGIN,
                  "20000 10 a\n20000 20 b c\n0x30000 8 d\n");
    write_seed(dir, "words", "functions", said);
    say_functions(said, 10000008, 7, BTRAIL_GUEST_FUNCTIONS_BEGIN,
                  "20000 10 e\n");
    say_functions(said, 10000009, 7, 0, "20010 10 f\n");
    say_up_to(said, 10000010);
    write_seed(dir, "words", "functions-again", said);
    say_content(said, 0, 8, 0, "\177ELF");
    say_content(said, 4, 8, 0, "rest");
    say_content(said, 0, 0, BTRAIL_GUEST_CONTENT_NONE, "");
    write_seed(dir, "words", "content", said);
}

/* Tables as they are, of another number of levels, and with large pages */
static void make_nested(const char *dir)
{
    static const uint8_t plain[] = { 0, 1 };
    /* The root is page 5, which leads to page 1. */
    static const uint8_t five[] = { 1, 5, 0, 0x50, 0, 2, 7, 0x10 };
    /* Entry 1 of the third table is 2 MB from 0 on, of the second one 1 GB. */
    static const uint8_t large[] = {
        0, 1, 8, 0x30, 0, 1, 0x87, 8, 0x20, 0, 1, 0x87,
    };

    write_file(dir, "plain", plain, sizeof(plain));
    write_file(dir, "five-levels", five, sizeof(five));
    write_file(dir, "large", large, sizeof(large));
}

/* A stream of Intel PT behind options and code, as the target wants them */
static GByteArray *begin_pt(const char *options, const char *code,
                            unsigned mode, uint64_t ip)
{
    GByteArray *s = g_byte_array_new();
    uint8_t size[2] = { 0 };

    pt_put(s, options);
    g_byte_array_append(s, size, 2);
    pt_put(s, code);
    s->data[2] = s->len - 4;
    pt_put_psb(s, mode, 0x5000, true, ip);
    return s;
}

static void end_pt(const char *dir, const char *name, GByteArray *s)
{
    write_file(dir, name, s->data, s->len);
    g_byte_array_free(s, TRUE);
}

static void make_pt(const char *dir)
{
    /* 0: nop; je 8; jmp 10; 8: call 20; jmp 10; 10: jmp *; 20: ret */
    const char *code = "90 7405 eb0b 909090 e813000000 eb01 90 ffe0"
                       "9090909090909090909090909090 c3 0f22d8 ffe0 f4 ebfe";
    GByteArray *s = begin_pt("00 04", code, PT_MODE_64, 0x401000);

    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x100d);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_FUP, 2, 0x1010);
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put_psb(s, PT_MODE_64, 0x5000, true, 0xffffffff81000001);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP, 6, 0x401021);
    pt_put_pip(s, 0x7000, true);
    pt_put_ip(s, PT_TIP, 6, 0x401000);
    end_pt(dir, "branches", s);

    s = begin_pt("05 09", code, PT_MODE_64, 0x401000);
    pt_put_tnt(s, "tt");
    pt_put_ip(s, PT_TIP, 2, 0x1026);
    pt_put_ip(s, PT_FUP, 2, 0x1026);
    pt_put_pip(s, 0x9000, false);
    pt_put_ip(s, PT_TIP, 6, 0xffffffffc0a01000);
    pt_put_tnt(s, "tntntntntnt");
    pt_put_pip(s, 0x5000, true);
    pt_put(s, "02c8 0100 0000 00");
    pt_put_ip(s, PT_TIP, 6, 0xffffffff81000000);
    pt_put(s, "02f3");
    pt_put_ip(s, PT_FUP, 6, 0x401000);
    pt_put_tnt(s, "n");
    pt_put_ip(s, PT_TIP_PGD, 0, 0);
    pt_put_ip(s, PT_TIP_PGE, 6, 0x401000);
    pt_put_tnt(s, "ntntnt");
    end_pt(dir, "exits", s);

    s = begin_pt("18 00", code, PT_MODE_32, 0x401000);
    pt_put_tsc(s, 1000);
    pt_put(s, "0273 3412 00 05 00 0203 1e00 5947 fb 0212 01020304");
    pt_put_tnt(s, "n");
    pt_put_mode(s, PT_MODE_16);
    pt_put_ip(s, PT_TIP, 6, 0x401000);
    pt_put(s, "5948 02b2 0102030405060708");
    pt_put_ip(s, PT_FUP, 2, 0x1000);
    pt_put(s, "9921");
    pt_put_ip(s, PT_FUP, 2, 0x1000);
    pt_put_mode(s, PT_MODE_64);
    pt_put_ip(s, PT_FUP, 2, 0x1001);
    pt_put_ip(s, PT_TIP, 2, 0x1010);
    pt_put_ip(s, PT_TIP, 2, 0x1000);
    pt_put(s, "0263 81 0c 01020304 0233 02e2");
    end_pt(dir, "modes", s);
}

static void put16(GByteArray *s, uint16_t n)
{
    const uint8_t bytes[] = { (uint8_t)n, n >> 8 };

    g_byte_array_append(s, bytes, sizeof(bytes));
}

/* A piece of memory */
static void put_piece(GByteArray *s, uint16_t address, const char *hex)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    uint8_t size;

    pt_put(bytes, hex);
    size = bytes->len;
    put16(s, address);
    g_byte_array_append(s, &size, 1);
    g_byte_array_append(s, bytes->data, bytes->len);
    s->data[4]++;
}

/*
 * Two vCPUs with page tables of four levels at 0x1000: 0x401000 is at 0x5000,
 * 0x402000, which was written to, at 0x6000, and 0xffffffff81000000 at 0x5000,
 * too.  Those at 0x7000 lead back to themselves.
 */
static void make_frozen(const char *dir)
{
    static const char *const names[] = { "plain", "wrapped", "loop" };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GByteArray) a = g_byte_array_new(), b = g_byte_array_new();
        GByteArray *s = g_byte_array_new();

        pt_put(s, i == 1 ? "2b 03 0900 00" : i == 2 ? "31 03 0000 00" :
               "00 03 0000 00");
        put_piece(s, 0x1000, "0720000000000000");
        put_piece(s, 0x1ff8, "0720000000000000");
        put_piece(s, 0x2000, "0730000000000000");
        put_piece(s, 0x2ff0, "0730000000000000");
        put_piece(s, 0x3010, "0740000000000000");
        put_piece(s, 0x3040, "0740000000000000");
        put_piece(s, 0x4000, "0750000000000000 2750000000000000"
                             "6760000000000000");
        put_piece(s, 0x5000, "90 7405 eb0b 909090 e813000000 eb01 90 ffe0"
                             "9090909090909090909090909090 c3 0f22d8 ffe0");
        put_piece(s, 0x6000, "7405 ffe0");
        put_piece(s, 0x7000, "0770000000000000");
        pt_put_psb(a, PT_MODE_64, 0x1000, true, 0x401000);
        pt_put_tsc(a, 5000);
        pt_put_tnt(a, "t");
        pt_put_ip(a, PT_TIP, 2, 0x100d);
        pt_put_ip(a, PT_TIP, 2, 0x1000);
        pt_put_ip(a, PT_FUP, 2, 0x1001);
        pt_put_ip(a, PT_TIP, 6, 0xffffffff81000000);
        pt_put_pip(a, i == 2 ? 0x7000 : 0x8000, true);
        pt_put_ip(a, PT_TIP, 6, 0x401000);
        pt_put_psb(b, PT_MODE_64, 0x1000, true, 0x401000);
        pt_put_tsc(b, 50000);
        pt_put_tnt(b, "n");
        pt_put_ip(b, PT_TIP, 2, 0x2000);
        pt_put_tnt(b, "n");
        pt_put_ip(b, PT_TIP, 2, 0x1000);
        pt_put_psb(b, PT_MODE_64, 0x1000, true, 0x401010);
        pt_put_ip(b, PT_TIP, 2, 0x1000);
        put16(s, a->len);
        g_byte_array_append(s, a->data, a->len);
        g_byte_array_append(s, b->data, b->len);
        end_pt(dir, names[i], s);
    }
}

int main(int argc, char **argv)
{
    g_autofree char *guest = NULL, *dynamic = NULL, *files = NULL;
    g_autofree char *trace = NULL, *stream = NULL, *qmp = NULL;
    g_autofree char *repair = NULL, *merge = NULL, *nested = NULL;
    g_autofree char *pt = NULL, *frozen = NULL;

    if (argc != 2) {
        return 2;
    }
    trace = g_build_filename(argv[1], "trace", NULL);
    stream = g_build_filename(argv[1], "stream", NULL);
    qmp = g_build_filename(argv[1], "qmp", NULL);
    repair = g_build_filename(argv[1], "repair", NULL);
    merge = g_build_filename(argv[1], "merge", NULL);
    make_traces(trace);
    make_code(trace);
    make_names(trace);
    make_traces(repair);
    make_parts(merge);
    make_streams(stream);
    make_producers(argv[1]);
    make_control(argv[1]);
    make_monitors(qmp);
    guest = g_build_filename(argv[1], "linux", NULL);
    make_linux(guest);
    dynamic = g_build_filename(argv[1], "dynamic-symbols", NULL);
    make_dynamic(dynamic);
    files = g_build_filename(argv[1], "file-functions", NULL);
    make_files(files);
    nested = g_build_filename(argv[1], "nested-memory", NULL);
    make_nested(nested);
    make_words(argv[1]);
    pt = g_build_filename(argv[1], "pt", NULL);
    make_pt(pt);
    frozen = g_build_filename(argv[1], "frozen-trace", NULL);
    make_frozen(frozen);
    return 0;
}
