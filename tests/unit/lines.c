/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of cli/lines.h: the text of records and events, write errors
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/lines.h"

#define START   UINT64_C(5000000000)

static const struct cli_trace trace = { .start = START };
static const unsigned threads[] = { 1, 2, 5 };

static uint64_t random64(void)
{
    return ((uint64_t)(uint32_t)g_test_rand_int() << 32 |
            (uint32_t)g_test_rand_int()) >> g_test_rand_int_range(0, 64);
}

/* The line of a record, as simple as can be */
/* The mode that CR3 says: in all lines of JSON, and in events of text */
static const char *mode_text(uint64_t cr3, bool json)
{
    return cr3 >> 59 & 1 ? (json ? ",\"bits\":16" : " bits=16") :
           cr3 >> 58 & 1 ? (json ? ",\"bits\":32" : " bits=32") : "";
}

static void add_line(GString *text, bool json, bool icount, unsigned vcpu,
                     const struct btrail_batch *b, size_t i)
{
    const struct btrail_record *r = &b->records[i];
    g_autofree char *time = b->time.host ? g_strdup_printf(
        "%" G_GUINT64_FORMAT ".%09u",
        (b->time.host - START) / 1000000000,
        (unsigned)((b->time.host - START) % 1000000000)) :
        g_strdup(json ? "null" : "-");
    uint64_t count = btrail_record_icount(r, &b->time);
    uint64_t cr3 = b->cr3 & ~(UINT64_C(3) << 58);
    g_autofree char *counted = count != BTRAIL_NO_ICOUNT ?
        g_strdup_printf("%" G_GUINT64_FORMAT, count) :
        g_strdup(json ? "null" : "-");

    if (json) {
        g_string_append_printf(
            text, "{\"vcpu\":%u,\"index\":%" G_GUINT64_FORMAT ",\"time\":%s,"
            "\"cr3\":\"0x%016" G_GINT64_MODIFIER "x\"%s,\"from\":\"0x%016"
            G_GINT64_MODIFIER "x\",\"to\":\"0x%016" G_GINT64_MODIFIER
            "x\",\"flags\":%" G_GUINT64_FORMAT "%s%s}\n", vcpu, b->index + i,
            time, cr3, mode_text(b->cr3, true), r->from, r->to,
            r->flags & 0xffff, icount ? ",\"icount\":" : "",
            icount ? counted : "");
    } else {
        g_string_append_printf(
            text, "%u %" G_GUINT64_FORMAT " %s 0x%016" G_GINT64_MODIFIER
            "x 0x%016" G_GINT64_MODIFIER "x 0x%016" G_GINT64_MODIFIER
            "x 0x%" G_GINT64_MODIFIER "x%s%s\n", vcpu, b->index + i, time,
            cr3, r->from, r->to, r->flags & 0xffff, icount ? " " : "",
            icount ? counted : "");
    }
}

static void check_text(int fd, const GString *want)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *got = g_malloc(size + 1);

    g_assert_cmpint(pread(fd, got, size, 0), ==, size);
    g_assert_cmpmem(got, size, want->str, want->len);
    g_free(got);
}

/* Batches of any size, and CR3 events, which have only the mode besides */
static void test_text(gconstpointer json)
{
    unsigned k, i, round;

    for (round = 0; round < 4; round++) {
        /* Many short ones, or few that are longer than a job */
        unsigned longest = round & 1 ? 30000 : 20;
        unsigned n = round & 1 ? 20 : 4000;
        bool icount = round & 2;

        for (k = 0; k < G_N_ELEMENTS(threads); k++) {
            struct lines_options options = {
                .trace = &trace, .json = json, .icount = icount,
                .threads = threads[k],
                .fd = memfd_create("lines", MFD_CLOEXEC),
            };
            struct lines *l = lines_new(&options);
            g_autoptr(GString) want = g_string_new(NULL);
            g_autofree struct btrail_record *records =
                g_new(struct btrail_record, longest);

            for (i = 0; i < n; i++) {
                unsigned vcpu = g_test_rand_int_range(0, 1024);
                struct btrail_event event = {
                    .index = random64(), .type = BTRAIL_EVENT_CR3,
                };
                struct btrail_batch b = {
                    .records = records,
                    .count = g_test_rand_int_range(1, longest),
                    .index = random64() >> 1,
                    .cr3 = random64(),
                    .time.host = g_test_rand_bit() ?
                                 START + (random64() >> 2) : 0,
                    .time.icount = g_test_rand_bit() ? random64() :
                                   BTRAIL_NO_ICOUNT,
                };
                size_t first = g_test_rand_int_range(0, b.count), j;

                for (j = 0; j < b.count; j++) {
                    records[j] = (struct btrail_record) {
                        random64(), random64(),
                        g_test_rand_bit() ? 0 : random64(),
                    };
                }
                lines_records(l, vcpu, &b, first, b.count - first);
                for (j = first; j < b.count; j++) {
                    add_line(want, json, icount, vcpu, &b, j);
                }
                if (g_test_rand_bit()) {
                    b = (struct btrail_batch) {
                        .event = &event, .cr3 = b.cr3,
                    };
                    event.data[0] = b.cr3;
                    lines_event(l, vcpu, &b);
                    g_string_append_printf(want, json ?
                        "{\"vcpu\":%u,\"index\":%" G_GUINT64_FORMAT
                        ",\"time\":null,\"cr3\":\"0x%016" G_GINT64_MODIFIER
                        "x\"%s,\"event\":\"cr3\"}\n" :
                        "%u %" G_GUINT64_FORMAT " - 0x%016" G_GINT64_MODIFIER
                        "x event cr3%s\n", vcpu, event.index,
                        b.cr3 & ~(UINT64_C(3) << 58), mode_text(b.cr3, json));
                }
            }
            g_assert_cmpint(lines_error(l), ==, 0);
            g_assert_cmpint(lines_free(l), ==, 0);
            check_text(options.fd, want);
            close(options.fd);
        }
    }
}

/* The longest lines of all, and each kind of event that tells more */
static void test_events(void)
{
    static const struct {
        struct btrail_event event;
        const char *text, *json;
    } events[] = {
        {
            { 1, BTRAIL_EVENT_TIME, 0, 0, { START, 7, BTRAIL_NO_ICOUNT } },
            "time host=5000000000 tsc=7",
            "\"time\",\"host\":5000000000,\"tsc\":7",
        }, {
            { 1, BTRAIL_EVENT_TIME, 0, 0, { START, 7, 8 } },
            "time host=5000000000 tsc=7 icount=8",
            "\"time\",\"host\":5000000000,\"tsc\":7,\"icount\":8",
        }, {
            { 1, BTRAIL_EVENT_GAP, BTRAIL_GAP_PRODUCER_LOST, 0,
              { BTRAIL_LOST_UNKNOWN } },
            "gap reason=producer-lost lost=unknown",
            "\"gap\",\"reason\":\"producer-lost\",\"lost\":null",
        }, {
            { 1, BTRAIL_EVENT_GAP, BTRAIL_GAP_ELSEWHERE, 0,
              { UINT64_MAX - 1 } },
            "gap reason=elsewhere lost=18446744073709551614",
            "\"gap\",\"reason\":\"elsewhere\",\"lost\":18446744073709551614",
        }, {
            { 1, BTRAIL_EVENT_GAP, BTRAIL_GAP_PT_RING, 0,
              { BTRAIL_LOST_UNKNOWN, 4096 } },
            "gap reason=ring-full lost=unknown bytes=4096",
            "\"gap\",\"reason\":\"ring-full\",\"lost\":null,\"bytes\":4096",
        }, {
            { 1, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_OVERFLOW, 0, { START } },
            "pause reason=overflow host=5000000000",
            "\"pause\",\"reason\":\"overflow\",\"host\":5000000000",
        }, {
            { 1, BTRAIL_EVENT_END, 99, 0, { START } },
            "end reason=unknown host=5000000000",
            "\"end\",\"reason\":\"unknown\",\"host\":5000000000",
        }, {
            { 1, BTRAIL_EVENT_TASK, BTRAIL_TASK_UNKNOWN, 0, { 0 } },
            "task unknown",
            "\"task\",\"tid\":null",
        }, {
            /* x, a newline, quotes, a backslash, e acute, half a character */
            { 1, BTRAIL_EVENT_TASK, BTRAIL_TASK_KERNEL, 0,
              { UINT64_C(7) << 32 | 8, UINT64_C(0xffa9c35c220a78) } },
            "task tid=8 pid=7 kernel=true "
            "comm=\"x\\n\\\"\\\\\303\251\\xff\"",
            "\"task\",\"tid\":8,\"pid\":7,\"kernel\":true,"
            "\"comm\":\"x\\n\\\"\\\\\303\251\357\277\275\"",
        }, {
            { 1, BTRAIL_EVENT_TASK, 0, 0,
              { UINT64_MAX, UINT64_C(0x0101010101010101),
                UINT64_C(0x0101010101010101) } },
            "task tid=4294967295 pid=4294967295 kernel=false comm=\""
            "\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01"
            "\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\"",
            "\"task\",\"tid\":4294967295,\"pid\":4294967295,\"kernel\":false,"
            "\"comm\":\""
            "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001"
            "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\"",
        }, {
            { 1, BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_BLOCKED |
                                    BTRAIL_TASK_LEFT_INTERRUPTIBLE, 0,
              { UINT64_C(7) << 32 | 8, 'x' } },
            "task tid=8 pid=7 kernel=false comm=\"x\" left=interruptible",
            "\"task\",\"tid\":8,\"pid\":7,\"kernel\":false,"
            "\"comm\":\"x\",\"left\":\"interruptible\"",
        }, {
            { 1, BTRAIL_EVENT_WAKE, BTRAIL_WAKE_KERNEL, 0,
              { UINT64_C(7) << 32 | 8 } },
            "wake tid=8 pid=7 kernel=true new=false",
            "\"wake\",\"tid\":8,\"pid\":7,\"kernel\":true,\"new\":false",
        }, {
            { 1, BTRAIL_EVENT_WAKE, BTRAIL_WAKE_UNKNOWN | BTRAIL_WAKE_NEW, 0,
              { 0 } },
            "wake unknown new=true",
            "\"wake\",\"tid\":null,\"new\":true",
        }, {
            { 1, UINT16_MAX, UINT16_MAX, 0, { 0 } },
            "unknown type=65535 number=65535",
            "\"unknown\",\"type\":65535,\"number\":65535",
        },
    };
    unsigned json, i;

    for (json = 0; json < 2; json++) {
        struct lines_options options = {
            .trace = &trace, .json = json, .threads = 2,
            .fd = memfd_create("lines", MFD_CLOEXEC),
        };
        struct lines *l = lines_new(&options);
        g_autoptr(GString) want = g_string_new(NULL);

        for (i = 0; i < G_N_ELEMENTS(events); i++) {
            struct btrail_batch b = {
                .event = &events[i].event, .cr3 = UINT64_MAX,
                .time.host = START - 1,
            };

            lines_event(l, 1023, &b);
            g_string_append_printf(want, json ?
                "{\"vcpu\":1023,\"index\":1,\"time\":-0.000000001,"
                "\"cr3\":\"0xf3ffffffffffffff\",\"bits\":16,\"event\":%s}\n" :
                "1023 1 -0.000000001 0xf3ffffffffffffff event %s\n",
                json ? events[i].json : events[i].text);
        }
        g_assert_cmpint(lines_free(l), ==, 0);
        check_text(options.fd, want);
        close(options.fd);
    }
}

/* A write that fails is reported, and the rest is dropped. */
static void test_error(void)
{
    g_autofree struct btrail_record *records =
        g_new0(struct btrail_record, 100000);
    const struct btrail_batch b = { .records = records, .count = 100000 };
    unsigned k;

    for (k = 0; k < G_N_ELEMENTS(threads); k++) {
        struct lines_options options = {
            .trace = &trace, .threads = threads[k],
            .fd = open("/dev/full", O_WRONLY | O_CLOEXEC),
        };
        struct lines *l = lines_new(&options);

        lines_records(l, 0, &b, 0, b.count);
        lines_records(l, 0, &b, 0, b.count);
        g_assert_cmpint(lines_error(l), ==, ENOSPC);
        g_assert_cmpint(lines_free(l), ==, ENOSPC);
        close(options.fd);

        /* As late as there is anything to write */
        options.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        l = lines_new(&options);
        lines_records(l, 0, &b, 0, 1);
        g_assert_cmpint(lines_error(l), ==, 0);
        g_assert_cmpint(lines_free(l), ==, ENOSPC);
        l = lines_new(&options);
        g_assert_cmpint(lines_free(l), ==, 0);
        close(options.fd);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/lines/text", NULL, test_text);
    g_test_add_data_func("/lines/json", "json", test_text);
    g_test_add_func("/lines/events", test_events);
    g_test_add_func("/lines/error", test_error);
    return g_test_run();
}
