/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring that is read while it fills, as the kernel writes one
 */

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pt/aux-ring.h"

#define PAGE    4096u
#define SIZE    (2 * PAGE)      /* of the ring */

struct writer {
    int fd;
    char *path;
    uint8_t *map;
    struct perf_event_mmap_page *page;
    struct aux_ring ring;
    GString *text;              /* what was read */
    uint8_t next;               /* each byte is one more than that before */
};

static void begin(struct writer *w)
{
    g_autoptr(GError) error = NULL;

    *w = (struct writer){ .text = g_string_new(NULL) };
    w->fd = memfd_create("ring", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(w->fd, 2 * PAGE + SIZE), ==, 0);
    g_assert_cmpint(fcntl(w->fd, F_ADD_SEALS, F_SEAL_SHRINK), ==, 0);
    w->map = mmap(NULL, 2 * PAGE + SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                  w->fd, 0);
    g_assert_true(w->map != MAP_FAILED);
    w->page = (void *)w->map;
    w->page->data_offset = w->page->data_size = PAGE;
    w->page->aux_offset = 2 * PAGE;
    w->page->aux_size = SIZE;
    w->path = g_strdup_printf("/proc/self/fd/%d", w->fd);
    aux_ring_from_file(&w->ring, w->path, 10, &error);
    g_assert_no_error(error);
}

static void end(struct writer *w)
{
    aux_ring_clear(&w->ring);
    g_string_free(w->text, TRUE);
    munmap(w->map, 2 * PAGE + SIZE);
    close(w->fd);
    g_free(w->path);
}

static void put_record(struct writer *w, unsigned type, const uint64_t *words,
                       unsigned n)
{
    const struct perf_event_header h = {
        .type = type, .size = (uint16_t)(sizeof(h) + n * 8),
    };

    for (unsigned i = 0; i <= n; i++) {
        memcpy(w->map + PAGE + w->page->data_head % PAGE,
               i ? (const void *)&words[i - 1] : &h, 8);
        w->page->data_head += 8;
    }
}

/* So many bytes, and what the kernel says of them */
static void put(struct writer *w, unsigned n, uint64_t flags, uint64_t time)
{
    const uint64_t words[] = { w->page->aux_head, n, flags, time };

    for (unsigned i = 0; i < n; i++) {
        w->map[2 * PAGE + (w->page->aux_head + i) % SIZE] = w->next++;
    }
    put_record(w, PERF_RECORD_AUX, words, time ? 4 : 3);
    w->page->aux_head += n;
}

static void take(void *opaque, const uint8_t *p, size_t n, uint64_t since)
{
    struct writer *w = opaque;

    for (size_t i = 1; i < n; i++) {
        g_assert_cmpuint(p[i], ==, (uint8_t)(p[i - 1] + 1));
    }
    g_string_append_printf(w->text, "%u+%zu/%" PRIu64 " ", p[0], n, since);
}

static void miss(void *opaque)
{
    struct writer *w = opaque;

    g_string_append(w->text, "missing ");
}

static const struct aux_ring_ops ops = { take, miss };

static void check(struct writer *w, const char *expected)
{
    bool some;

    g_assert_true(aux_ring_read(&w->ring, &ops, w, &some));
    g_assert_cmpstr(w->text->str, ==, expected);
    g_assert_cmpint(some, ==, strchr(expected, '+') != NULL);
    g_assert_cmpuint(w->page->data_tail, ==, w->page->data_head);
    g_string_truncate(w->text, 0);
}

static void test_parts(void)
{
    struct writer w;

    begin(&w);
    check(&w, "");
    put(&w, 5, 0, 20);
    put(&w, 7, 0, 30);
    g_assert_cmpuint(aux_ring_waiting(&w.ring), ==, 12);
    check(&w, "0+5/10 5+7/20 ");
    g_assert_cmpuint(w.page->aux_tail, ==, 12);
    g_assert_cmpuint(aux_ring_waiting(&w.ring), ==, 0);
    /* Nobody says when it was written. */
    put(&w, 3, 0, 0);
    check(&w, "12+3/30 ");
    /* A record is there before the head is. */
    put(&w, 4, 0, 40);
    w.page->aux_head -= 4;
    check(&w, "");
    w.page->aux_head += 4;
    check(&w, "15+4/30 ");
    /* Around the end */
    put(&w, SIZE - 20, 0, 50);
    check(&w, "19+8172/40 ");
    put(&w, 6, 0, 60);
    check(&w, "255+1/50 0+5/50 ");
    g_assert_cmpuint(w.ring.read, ==, w.page->aux_head);
    g_assert_false(w.ring.stopped);
    end(&w);
}

static void test_missing(void)
{
    const uint64_t lost[] = { 1, 1 };
    struct writer w;

    begin(&w);
    put(&w, 100, PERF_AUX_FLAG_TRUNCATED, 20);
    put(&w, 1, 0, 30);
    check(&w, "0+100/10 missing 100+1/20 ");
    g_assert_true(w.ring.stopped);
    /* Somewhere in these */
    put(&w, 2, PERF_AUX_FLAG_PARTIAL, 40);
    w.ring.stopped = false;
    check(&w, "missing 101+2/30 missing ");
    /* Records were lost, and what they would have said. */
    put_record(&w, PERF_RECORD_LOST, lost, 2);
    put(&w, 2, 0, 50);
    check(&w, "missing 103+2/40 ");
    g_assert_false(w.ring.stopped);
    g_assert_cmpuint(w.ring.lost, ==, 4);
    end(&w);
}

/* Many records: they go around, too, and others are left out */
static void test_around(void)
{
    const uint64_t words[] = { 1, 2 };
    struct writer w;

    begin(&w);
    for (unsigned i = 1; i < 1000; i++) {
        g_autofree char *expected = g_strdup_printf("%u+1/%u ", (i - 1) % 256,
                                                    10 + i - 1);

        put_record(&w, PERF_RECORD_ITRACE_START, words, 1 + i % 2);
        put(&w, 1, 0, 10 + i);
        check(&w, expected);
    }
    end(&w);
}

/* Who writes it can write anything. */
static void test_hostile(void)
{
    const uint64_t words[3][3] = {
        { 0, SIZE + 1, 0 }, { UINT64_MAX, 0, 0 }, { SIZE * 9, 4, 0 },
    };
    struct writer w;
    bool some;

    for (unsigned i = 0; i < 7; i++) {
        begin(&w);
        put(&w, 10, 0, 20);
        check(&w, "0+10/10 ");
        switch (i) {
        case 0:
            w.page->aux_head += SIZE + 1;
            break;
        case 1:
            w.page->aux_head--;
            break;
        case 2:
            w.page->data_head += PAGE + 8;
            break;
        case 3:
            put_record(&w, PERF_RECORD_AUX, NULL, 0);
            w.map[PAGE + w.page->data_head % PAGE - 2] = 4;
            break;
        default:
            put_record(&w, PERF_RECORD_AUX, words[i - 4], 3);
            break;
        }
        g_assert_false(aux_ring_read(&w.ring, &ops, &w, &some));
        end(&w);
    }
}

/* Random ones end, and nothing is read where nothing is. */
static void test_random(void)
{
    for (unsigned round = 0; round < 2000; round++) {
        struct writer w;
        bool some;

        begin(&w);
        for (unsigned i = 0; i < PAGE; i++) {
            w.map[PAGE + i] = (uint8_t)g_test_rand_int_range(0, i % 8 ? 3 : 40);
        }
        w.page->data_head = (uint64_t)g_test_rand_int_range(0, PAGE / 8) * 8;
        w.page->aux_head = (uint64_t)g_test_rand_int_range(0, SIZE + 1);
        memset(w.map + 2 * PAGE, 7, SIZE);
        for (unsigned i = 0; i < SIZE; i++) {
            w.map[2 * PAGE + i] = (uint8_t)i;
        }
        aux_ring_read(&w.ring, &ops, &w, &some);
        end(&w);
    }
}

static void test_files(void)
{
    g_autoptr(GError) error = NULL;
    struct aux_ring r;
    struct writer w;

    g_assert_false(aux_ring_from_file(&r, "/nowhere", 0, &error));
    g_assert_nonnull(strstr(error->message, "/nowhere"));
    g_clear_error(&error);
    g_assert_false(aux_ring_from_file(&r, "/proc/self/exe", 0, &error));
    g_clear_error(&error);
    for (unsigned i = 0; i < 6; i++) {
        static const uint64_t wrong[] = { 0, 5000, UINT64_MAX, 1, PAGE + 1,
                                          SIZE };

        begin(&w);
        w.page->data_offset = i == 1 ? wrong[i] : PAGE;
        w.page->data_size = i == 0 || i == 4 || i == 5 ? wrong[i] : PAGE;
        w.page->aux_offset = i == 2 ? wrong[i] : 2 * PAGE;
        w.page->aux_size = i == 3 ? wrong[i] : SIZE;
        g_assert_false(aux_ring_from_file(&r, w.path, 0, &error));
        g_assert_nonnull(strstr(error->message, "laid out"));
        g_clear_error(&error);
        end(&w);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/aux-ring/parts", test_parts);
    g_test_add_func("/aux-ring/missing", test_missing);
    g_test_add_func("/aux-ring/around", test_around);
    g_test_add_func("/aux-ring/hostile", test_hostile);
    g_test_add_func("/aux-ring/random", test_random);
    g_test_add_func("/aux-ring/files", test_files);
    return g_test_run();
}
