/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timelines as a reader finds them that is made of Perfetto's schema
 */

#include <string.h>

#include "cli/export/perfetto.h"
#include "timeline-reader.h"

/* What is written, to memory */
struct scene {
    char *bytes;
    size_t size;
    FILE *out;
    struct perfetto *p;
};

static void begin(struct scene *s)
{
    s->out = open_memstream(&s->bytes, &s->size);
    s->p = perfetto_new(s->out);
}

/* What was written so far; what is said of its size is right. */
static GPtrArray *packets_of(struct scene *s)
{
    fflush(s->out);
    g_assert_cmpuint(perfetto_written(s->p), ==, s->size);
    return timeline_packets(s->bytes, s->size);
}

static void end(struct scene *s)
{
    perfetto_free(s->p);
    fclose(s->out);
    free(s->bytes);
}

static void put(struct scene *s, enum perfetto_type type, uint64_t track,
                uint64_t time, const char *name, bool often,
                const uint64_t *value)
{
    const struct perfetto_event e = {
        .type = type, .track = track, .time = time, .name = name,
        .often = often, .value = value,
    };

    perfetto_event(s->p, &e);
}

static void test_events(void)
{
    static const struct {
        enum perfetto_type type;
        uint64_t track, time;
        const char *name, *quoted;
        bool often, has_value;
        uint64_t value;
    } all[] = {
        { PERFETTO_BEGIN, 1, 0, "f", "f", true, false, 0 },
        { PERFETTO_BEGIN, 1, 1, "f", "f", true, true, 0 },
        { PERFETTO_INSTANT, 2, 5, "rare", "rare", false, true, UINT64_MAX },
        { PERFETTO_BEGIN, 3, 5, "g\n\033[1m", "g\\n\\x1b[1m", true, false, 0 },
        { PERFETTO_END, 1, UINT64_MAX, NULL, NULL, false, false, 0 },
        { PERFETTO_INSTANT, UINT32_MAX, 7, "", "", false, true, 1 },
        { PERFETTO_BEGIN, 3, 6, "g\n\033[1m", "g\\n\\x1b[1m", false, false, 0 },
        { PERFETTO_BEGIN, 3, 8, "g\n\033[1m", "g\\n\\x1b[1m", true, false, 0 },
        { PERFETTO_END, 3, 9, NULL, NULL, true, false, 0 },
    };
    struct scene s;
    g_autoptr(GPtrArray) none = NULL, packets = NULL;
    g_autoptr(GArray) events = NULL;

    begin(&s);
    none = packets_of(&s);
    g_assert_cmpuint(none->len, ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        put(&s, all[i].type, all[i].track, all[i].time, all[i].name,
            all[i].often, all[i].has_value ? &all[i].value : NULL);
    }
    packets = packets_of(&s);
    events = timeline_events(packets);
    g_assert_cmpuint(events->len, ==, G_N_ELEMENTS(all));
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        const struct timeline_event *e = &g_array_index(
            events, struct timeline_event, i);

        g_assert_cmpuint(e->type, ==, all[i].type);
        g_assert_cmpuint(e->track, ==, all[i].track);
        g_assert_cmpuint(e->time, ==, all[i].time);
        g_assert_cmpstr(e->name, ==, all[i].quoted);
        g_assert_cmpint(e->has_value, ==, all[i].has_value);
        g_assert_cmpuint(e->value, ==, all[i].value);
    }
    end(&s);
}

static uint64_t random_number(void)
{
    uint64_t high = (uint32_t)g_test_rand_int();
    uint64_t v = high << 32 | (uint32_t)g_test_rand_int();

    return v >> g_test_rand_int_range(0, 64);
}

/* A name that was never used, of bytes that can have to be quoted */
static char *random_name(void)
{
    static unsigned n;
    GString *name = g_string_new(NULL);

    g_string_printf(name, "%u", n++);
    for (int k = g_test_rand_int_range(0, 300); k > 0; k--) {
        g_string_append_c(name, g_test_rand_bit() ? 'a' :
                          g_test_rand_int_range(1, 256));
    }
    return g_string_free(name, FALSE);
}

/* Nothing takes more bytes than was said before. */
static void test_sizes(void)
{
    struct scene s;

    begin(&s);
    for (unsigned i = 0; i < 2000; i++) {
        g_autofree char *name = random_name();
        uint64_t value = random_number(), before = perfetto_written(s.p);
        struct perfetto_event e = {
            .type = 1 + i % 3, .track = random_number() >> 31,
            .time = random_number(), .often = true,
            .name = i % 3 == 1 ? NULL : name,
            .value = g_test_rand_bit() && i % 3 != 1 ? &value : NULL,
        };

        perfetto_event(s.p, &e);
        g_assert_cmpuint(perfetto_written(s.p) - before, <=,
                         perfetto_event_size(&e) +
                         (e.name ? perfetto_name_size(name) : 0));
        /* Its name is there now. */
        before = perfetto_written(s.p);
        perfetto_event(s.p, &e);
        g_assert_cmpuint(perfetto_written(s.p) - before, <=,
                         perfetto_event_size(&e));
    }
    end(&s);
}

static void add_thread(struct scene *s, uint64_t track, int64_t pid,
                       int64_t tid, const char *comm, uint16_t nested)
{
    const struct process thread = {
        .pid = pid, .tid = tid, .comm = comm, .nested = nested,
    };

    perfetto_thread(s->p, track, &thread);
}

/* The descriptors of packets, or what their field @number is */
static GPtrArray *messages(const GPtrArray *packets, unsigned number)
{
    GPtrArray *found = g_ptr_array_new_with_free_func(
        (GDestroyNotify)g_array_unref);

    for (guint i = 0; i < packets->len; i++) {
        if (proto_count(packets->pdata[i], number)) {
            g_ptr_array_add(found, proto_message(packets->pdata[i], number));
        }
    }
    return found;
}

static void check_thread(const GArray *d, uint64_t track, uint64_t pid,
                         uint64_t tid, const char *want)
{
    g_autoptr(GArray) thread = proto_message(d, 4);
    g_autofree char *name = proto_text(thread, 5);

    g_assert_cmpuint(proto_value(d, 1), ==, track);
    g_assert_cmpuint(proto_value(thread, 1), ==, pid);
    g_assert_cmpuint(proto_value(thread, 2), ==, tid);
    g_assert_cmpstr(name, ==, want);
}

/* The name of a process that is described; NULL if it is not, once */
static char *process_name(const GPtrArray *descriptors, uint64_t pid)
{
    char *name = NULL;

    for (guint i = 0; i < descriptors->len; i++) {
        const GArray *d = descriptors->pdata[i];

        if (proto_count(d, 3)) {
            g_autoptr(GArray) process = proto_message(d, 3);

            if (proto_value(process, 1) == pid) {
                g_assert_null(name);
                name = proto_text(process, 6);
                g_assert_cmpuint(proto_value(d, 1), >=, PERFETTO_TRACKS);
            }
        }
    }
    return name;
}

static void check_process(const GPtrArray *descriptors, uint64_t pid,
                          const char *want)
{
    g_autofree char *name = process_name(descriptors, pid);

    g_assert_cmpstr(name, ==, want);
}

/* Threads, and processes with the names that their first threads had last */
static void test_threads(void)
{
    struct scene s;
    g_autoptr(GPtrArray) packets = NULL, before = NULL, described = NULL;
    uint64_t size, written;

    begin(&s);
    add_thread(&s, 1, 10, 10, "sh", 0);
    add_thread(&s, 2, 10, 11, "worker\n", 0);
    add_thread(&s, 3, 10, 10, "make", 0);
    add_thread(&s, 4, 20, 21, "second", 0);
    add_thread(&s, 5, 20, 22, "third", 0);
    add_thread(&s, 6, 10, 10, "inside", 1);
    add_thread(&s, 7, -1, -1, "nobody knows", 0);
    before = packets_of(&s);
    g_assert_cmpuint(before->len, ==, 7);
    written = perfetto_written(s.p);
    size = perfetto_processes_size(s.p);
    perfetto_processes(s.p);
    g_assert_cmpuint(perfetto_written(s.p) - written, <=, size);

    packets = packets_of(&s);
    described = messages(packets, 60);
    g_assert_cmpuint(described->len, ==, 7 + 4);
    check_thread(described->pdata[0], 1, 10, 10, "sh");
    check_thread(described->pdata[1], 2, 10, 11, "worker\\n");
    check_thread(described->pdata[2], 3, 10, 10, "make");
    check_thread(described->pdata[3], 4, 20, 21, "second");
    /* Linux gives nobody such a number. */
    check_thread(described->pdata[5], 6, 5000010, 5000010, "inside");
    check_thread(described->pdata[6], 7, INT32_MAX, INT32_MAX, "nobody knows");
    check_process(described, 10, "make");
    check_process(described, 20, "second");
    check_process(described, 5000010, "inside");
    check_process(described, INT32_MAX, "nobody knows");
    end(&s);
}

/* The first thread of a process comes after others. */
static void test_later(void)
{
    struct scene s;
    g_autoptr(GPtrArray) packets = NULL, described = NULL;

    begin(&s);
    add_thread(&s, 1, 20, 21, "second", 0);
    add_thread(&s, 2, 20, 20, "first", 0);
    add_thread(&s, 3, 20, 23, "third", 0);
    perfetto_processes(s.p);
    packets = packets_of(&s);
    described = messages(packets, 60);
    check_process(described, 20, "first");
    end(&s);
}

/* A thread that was described is not described as a task, nor one twice. */
static void test_tasks(void)
{
    struct scene s;
    g_autoptr(GPtrArray) packets = NULL, described = NULL, trees = NULL;
    g_autoptr(GArray) thread = NULL;
    g_autofree char *name = NULL;

    begin(&s);
    add_thread(&s, 1, 10, 11, "thread", 0);
    perfetto_task(s.p, 10, 11, "not this");
    perfetto_task(s.p, 10, 10, "main\t");
    perfetto_task(s.p, 10, 10, "nor this");
    perfetto_processes(s.p);
    packets = packets_of(&s);
    trees = messages(packets, 2);
    g_assert_cmpuint(trees->len, ==, 1);
    thread = proto_message(trees->pdata[0], 2);
    name = proto_text(thread, 2);
    g_assert_cmpstr(name, ==, "main\\t");
    g_assert_cmpuint(proto_value(thread, 1), ==, 10);
    g_assert_cmpuint(proto_value(thread, 3), ==, 10);
    described = messages(packets, 60);
    check_process(described, 10, "main\\t");
    end(&s);
}

static void test_others(void)
{
    struct scene s;
    g_autoptr(GByteArray) bundle = g_byte_array_new();
    g_autoptr(GPtrArray) packets = NULL;
    g_autoptr(GArray) top = NULL, below = NULL, info = NULL, name = NULL;
    g_autofree char *text = NULL, *system = NULL, *release = NULL;
    g_autofree char *machine = NULL;
    const struct proto_field *f;

    begin(&s);
    g_byte_array_append(bundle, (const uint8_t *)"\x08\x05", 2);
    perfetto_track(s.p, 1, 0, "top\r");
    perfetto_track(s.p, PERFETTO_TRACKS - 1, 1, "below");
    perfetto_ftrace(s.p, bundle);
    perfetto_release(s.p, "6.1.0\n");
    packets = packets_of(&s);
    g_assert_cmpuint(packets->len, ==, 4);
    top = proto_message(packets->pdata[0], 60);
    text = proto_text(top, 2);
    g_assert_cmpstr(text, ==, "top\\r");
    g_assert_cmpuint(proto_value(top, 1), ==, 1);
    g_assert_cmpuint(proto_count(top, 5), ==, 0);
    below = proto_message(packets->pdata[1], 60);
    g_assert_cmpuint(proto_value(below, 1), ==, UINT32_MAX);
    g_assert_cmpuint(proto_value(below, 5), ==, 1);
    f = proto_get(packets->pdata[2], 1, 0);
    g_assert_cmpmem(f->bytes, f->n, bundle->data, bundle->len);
    info = proto_message(packets->pdata[3], 45);
    name = proto_message(info, 1);
    system = proto_text(name, 1);
    release = proto_text(name, 3);
    machine = proto_text(name, 4);
    g_assert_cmpstr(system, ==, "Linux");
    g_assert_cmpstr(release, ==, "6.1.0\\n");
    g_assert_cmpstr(machine, ==, "x86_64");
    end(&s);
}

/*
 * Packets that are refused leave a timeline that is sound without them.
 * Returns how many bytes are written.
 */
static uint64_t check_limit(uint64_t limit)
{
    struct scene s;
    g_autoptr(GPtrArray) packets = NULL;
    g_autoptr(GArray) events = NULL;
    uint64_t written;
    unsigned n = 0;

    begin(&s);
    perfetto_set_limit(s.p, limit);
    for (unsigned i = 0; i < 60; i++) {
        g_autofree char *name = g_strnfill(i * 7 % 10, 'a' + i * 5 % 3);

        if (i % 9 == 3) {
            perfetto_track(s.p, i, 0, name);
        } else {
            put(&s, PERFETTO_INSTANT, 1, i, name, true, NULL);
        }
        n++;
    }
    packets = packets_of(&s);
    written = perfetto_written(s.p);
    g_assert_true(!limit || written <= limit);
    g_assert_cmpuint(packets->len + perfetto_refused(s.p), ==, n);
    events = timeline_events(packets);
    for (guint i = 0; i < events->len; i++) {
        g_assert_nonnull(g_array_index(events, struct timeline_event,
                                       i).name);
    }
    end(&s);
    return written;
}

static void test_limit(void)
{
    uint64_t all = check_limit(0);

    for (uint64_t limit = 1; limit < all; limit++) {
        check_limit(limit);
    }
    /* What fits exactly is written. */
    g_assert_cmpuint(check_limit(all), ==, all);
}

/* Up to the limit there is room, and not beyond. */
static void test_append(void)
{
    static const uint8_t packet[] = { 0x0a, 2, 0x50, 1 };
    struct scene s;
    g_autoptr(GPtrArray) packets = NULL;

    begin(&s);
    g_assert_true(perfetto_append(s.p, packet, sizeof(packet)));
    perfetto_set_limit(s.p, 3 * sizeof(packet));
    g_assert_true(perfetto_append(s.p, packet, sizeof(packet)));
    g_assert_false(perfetto_append(s.p, packet, sizeof(packet) + 1));
    g_assert_true(perfetto_append(s.p, packet, sizeof(packet)));
    g_assert_false(perfetto_append(s.p, packet, sizeof(packet)));
    g_assert_true(perfetto_append(s.p, packet, 0));
    packets = packets_of(&s);
    g_assert_cmpuint(packets->len, ==, 3);
    g_assert_cmpuint(perfetto_refused(s.p), ==, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/perfetto/events", test_events);
    g_test_add_func("/perfetto/sizes", test_sizes);
    g_test_add_func("/perfetto/threads", test_threads);
    g_test_add_func("/perfetto/later", test_later);
    g_test_add_func("/perfetto/tasks", test_tasks);
    g_test_add_func("/perfetto/others", test_others);
    g_test_add_func("/perfetto/limit", test_limit);
    g_test_add_func("/perfetto/append", test_append);
    return g_test_run();
}
