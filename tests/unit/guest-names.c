/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the thread that asks a guest for names, with a guest that is made up
 */

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocated.h"
#include "guest-names/guest-names.h"
#include "lib/agent/sideband.h"
#include "name-samples.h"

#define BUDGET      (16u << 20)
#define TSC(us)     (UINT64_C(1000) * (us))
#define HOST(us)    (UINT64_C(1000) * (us) + UINT64_C(5000000000))

struct fixture {
    int guest;                  /* its end */
    struct guest_words *words;
    struct btrail_budget *budget;
    GMutex lock;
    GString *found;             /* as text */
    unsigned tables;
};

static void note(struct fixture *f, const struct scanner_piece *piece)
{
    struct btrail_sideband_info info;
    struct btrail_snapshot *s;
    void *data;

    g_assert_cmpint(btrail_sideband_unpack(piece->packed, piece->packed_size,
                                           &info, &data), ==, 0);
    g_assert_null(piece->snapshot);
    if (piece->kind == BTRAIL_SIDEBAND_TOLD_SYMBOLS) {
        g_string_append_printf(f->found, "symbols %.*s\n", (int)info.size,
                               (const char *)data);
        f->tables++;
        free(data);
        return;
    }
    g_assert_cmpuint(piece->kind, ==, BTRAIL_SIDEBAND_TOLD_PROCESSES);
    g_assert_cmpint(btrail_snapshot_decode(&s, data, info.size), ==, 0);
    free(data);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct btrail_process *p = &s->processes[i];

        if (!(p->flags & BTRAIL_PROCESS_SEEN)) {
            g_string_append_printf(f->found, "%u %s at %" G_GINT64_MODIFIER
                                   "x\n", p->pid, p->comm, p->pgd);
        }
    }
    btrail_snapshot_free(s);
}

static void got(void *opaque, const struct scanner_piece *piece)
{
    struct fixture *f = opaque;

    g_mutex_lock(&f->lock);
    note(f, piece);
    g_mutex_unlock(&f->lock);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    f->guest = socks[0];
    f->budget = btrail_budget_new_fixed(BUDGET, 4);
    f->found = g_string_new(NULL);
    g_mutex_init(&f->lock);
    f->words = guest_words_new(socks[1], NULL, f->budget, got, f);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    if (f->guest >= 0) {
        close(f->guest);
    }
    g_assert_cmpuint(btrail_budget_left(f->budget), ==, BUDGET);
    btrail_budget_unref(f->budget);
    g_string_free(f->found, TRUE);
    g_mutex_clear(&f->lock);
}

/* Reads a request of the agent's. */
static void expect(struct fixture *f, uint16_t type,
                   struct btrail_guest_open *open)
{
    struct btrail_guest_header h;

    g_assert_cmpint(recv(f->guest, &h, sizeof(h), MSG_WAITALL), ==, sizeof(h));
    g_assert_cmpint(h.type, ==, type);
    g_assert_cmpint(h.size, ==, open ? sizeof(*open) : 0);
    if (open) {
        g_assert_cmpint(recv(f->guest, open, sizeof(*open), MSG_WAITALL), ==,
                        sizeof(*open));
        g_assert_cmpuint(open->magic, ==, BTRAIL_GUEST_MAGIC);
        g_assert_cmpuint(open->version, ==, BTRAIL_GUEST_VERSION);
    }
}

static void send_said(struct fixture *f, GByteArray *said)
{
    g_assert_cmpint(send(f->guest, said->data, said->len, 0), ==, said->len);
    g_byte_array_set_size(said, 0);
}

static void wait_found(struct fixture *f, const char *want)
{
    bool found = false;

    for (unsigned i = 0; i < 1000 && !found; i++) {
        g_mutex_lock(&f->lock);
        found = strstr(f->found->str, want);
        g_mutex_unlock(&f->lock);
        g_usleep(10000);
    }
    g_assert_true(found);
}

/* Slabs of vCPU 0, in which a process runs at root 0x7000 */
static void drain(struct fixture *f, uint64_t from_us, uint64_t first)
{
    struct btrail_event events[] = {
        { .index = first, .type = BTRAIL_EVENT_TIME,
          .data = { HOST(from_us), TSC(from_us) } },
        { .index = first + 10, .type = BTRAIL_EVENT_CR3,
          .data = { 0x7000 } },
        { .index = first + 20, .type = BTRAIL_EVENT_TIME,
          .data = { HOST(from_us + 6000), TSC(from_us + 6000) } },
        { .index = first + 90, .type = BTRAIL_EVENT_CR3,
          .data = { 0x1000 } },
    };
    const struct btrail_slab slab = {
        .first_index = first, .cr3 = 0x1000, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };
    const struct btrail_code_item item = {
        .type = BTRAIL_CODE_PAGE, .index = first + 15, .cr3 = 0x7000,
        .linear = 0x10000,
    };

    guest_words_code(f->words, 0, &item);
    guest_words_slab(f->words, 0, &slab);
}

static void finish(struct fixture *f, struct guest_words_result *result)
{
    guest_words_finish(f->words, result);
}

static void test_names(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { TSC(1000), 0, 0 }, { TSC(4000), 7, 7 }, { TSC(9500), 0, 0 }, { 0 },
    };
    g_autoptr(GByteArray) said = g_byte_array_new();
    struct guest_words_result result;
    struct btrail_guest_open open;

    expect(f, BTRAIL_GUEST_OPEN, &open);
    g_byte_array_append(said, (const void *)"what was before", 15);
    say_hello(said, open.nonce, BTRAIL_GUEST_HAS_SWITCHES);
    say_listing(said, TSC(100), false);
    say_process(said, TSC(101), 7, "sh");
    say_mapping(said, TSC(101), 7, 0x10000, 4, "/bin/sh");
    say_listing(said, TSC(102), true);
    say_symbols(said, BTRAIL_GUEST_SYMBOLS_BEGIN, "1 t a\n");
    say_symbols(said, BTRAIL_GUEST_SYMBOLS_END, "2 t b\n");
    send_said(f, said);
    wait_found(f, "symbols 1 t a\n2 t b\n");
    drain(f, 1500, 0);
    say_switches(said, 0, cpu0);
    say_up_to(said, TSC(12000));
    send_said(f, said);
    wait_found(f, "7 sh at 7000\n");
    guest_words_status(f->words, &result);
    g_assert_cmpstr(result.release, ==, "6.12.0");
    g_assert_cmpstr(result.why, ==, NULL);
    g_assert_cmpuint(result.named, ==, 1);
    guest_words_result_clear(&result);
    /* All of it once more, for whoever comes late */
    g_mutex_lock(&f->lock);
    g_string_truncate(f->found, 0);
    g_mutex_unlock(&f->lock);
    guest_words_resend(f->words);
    wait_found(f, "symbols 1 t a\n2 t b\n");
    wait_found(f, "7 sh at 7000\n");
    finish(f, &result);
    g_assert_cmpuint(result.named, ==, 1);
    guest_words_result_clear(&result);
}

/* The end waits for what the guest has still to say. */
static gpointer say_late(gpointer opaque)
{
    static const struct btrail_guest_switch cpu0[] = {
        { TSC(4000), 7, 7 }, { TSC(9500), 0, 0 }, { 0 },
    };
    const struct btrail_guest_flushed flushed = { TSC(12000) };
    struct fixture *f = opaque;
    g_autoptr(GByteArray) said = g_byte_array_new();

    expect(f, BTRAIL_GUEST_FLUSH, NULL);
    say_switches(said, 0, cpu0);
    say_up_to(said, TSC(12000));
    say(said, BTRAIL_GUEST_FLUSHED, &flushed, sizeof(flushed), "");
    send_said(f, said);
    return NULL;
}

static void test_end(struct fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) said = g_byte_array_new();
    struct guest_words_result result;
    struct btrail_guest_open open;
    GThread *late;

    expect(f, BTRAIL_GUEST_OPEN, &open);
    say_hello(said, open.nonce, 0);
    say_process(said, TSC(101), 7, "sh");
    say_mapping(said, TSC(101), 7, 0x10000, 4, "/bin/sh");
    send_said(f, said);
    drain(f, 1500, 0);
    late = g_thread_new("late", say_late, f);
    finish(f, &result);
    g_thread_join(late);
    g_assert_cmpstr(f->found->str, ==, "7 sh at 7000\n");
    guest_words_result_clear(&result);
}

/* What is lost is asked for; whoever talks nonsense is asked again. */
static void test_again(struct fixture *f, gconstpointer data)
{
    const struct btrail_guest_lost lost = {
        .n = 1, .what = BTRAIL_GUEST_LOST_EVENTS,
    };
    g_autoptr(GByteArray) said = g_byte_array_new();
    struct guest_words_result result;
    struct btrail_guest_open open, again;

    expect(f, BTRAIL_GUEST_OPEN, &open);
    say_hello(said, open.nonce, 0);
    say(said, BTRAIL_GUEST_LOST, &lost, sizeof(lost), "");
    send_said(f, said);
    expect(f, BTRAIL_GUEST_LIST, NULL);
    say(said, 77, "", 0, "");
    send_said(f, said);
    expect(f, BTRAIL_GUEST_OPEN, &again);
    g_assert_cmpuint(again.nonce, !=, open.nonce);
    guest_words_status(f->words, &result);
    g_assert_nonnull(strstr(result.why, "no message: type 77"));
    guest_words_result_clear(&result);
    say_hello(said, again.nonce, 0);
    say_symbols(said, BTRAIL_GUEST_SYMBOLS_BEGIN | BTRAIL_GUEST_SYMBOLS_END,
                "1 t a\n");
    send_said(f, said);
    wait_found(f, "symbols");
    finish(f, &result);
    g_assert_cmpstr(result.why, ==, NULL);
    guest_words_result_clear(&result);
}

/*
 * Names of threads, and tables of symbols, without end: they are kept as far as
 * there is room, and each table is not sent.  What is made of all that, for a
 * moment, is no more either.
 */
static void test_endless(struct fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) said = g_byte_array_new();
    g_autofree char *text = g_strnfill(4000, 'x');
    struct guest_words_result result;
    struct btrail_guest_open open;
    uint32_t n = 0;
    int64_t before;
    gint64 end;

    memcpy(text + 4000 - 7, "\n2 t b\n", 7);
    memcpy(text, "1 t ", 4);
    expect(f, BTRAIL_GUEST_OPEN, &open);
    before = allocated();
    say_hello(said, open.nonce, 0);
    for (end = g_get_monotonic_time() + 3 * G_TIME_SPAN_SECOND;
         g_get_monotonic_time() < end;) {
        for (unsigned i = 0; i < 100; i++, n++) {
            if (!(n % 1000)) {
                say_process(said, TSC(101), 100 + n / 1000, "sh");
            }
            say_thread(said, TSC(101), 100 + n / 1000, 1000000000 - n);
        }
        say_symbols(said, BTRAIL_GUEST_SYMBOLS_BEGIN |
                    BTRAIL_GUEST_SYMBOLS_END, text);
        send_said(f, said);
        g_assert_cmpint(allocated(), <, before + BUDGET);
    }
    wait_found(f, "2 t b");
    g_test_message("%u threads, %u tables, %" G_GUINT64_FORMAT " refused", n,
                   f->tables, btrail_budget_refused(f->budget));
    g_assert_cmpuint(n, >, 200000);
    g_assert_cmpuint(btrail_budget_refused(f->budget), >, 0);
    g_assert_cmpuint(f->tables, <=, 20);
    guest_words_status(f->words, &result);
    g_assert_cmpstr(result.release, ==, "6.12.0");
    guest_words_result_clear(&result);
    close(f->guest);
    f->guest = -1;
    finish(f, &result);
    guest_words_result_clear(&result);
}

static void test_gone(struct fixture *f, gconstpointer data)
{
    struct guest_words_result result;

    close(f->guest);
    f->guest = -1;
    for (unsigned i = 0; i < 100; i++) {
        drain(f, 1500 + 10000 * i, 100 * i);
    }
    finish(f, &result);
    g_assert_nonnull(strstr(result.why, "before its backtrail-guest-names"));
    g_assert_cmpuint(result.named, ==, 0);
    guest_words_result_clear(&result);
}

/* A guest without the program says nothing, and costs a second. */
static void test_silent(struct fixture *f, gconstpointer data)
{
    struct guest_words_result result;
    gint64 begin = g_get_monotonic_time();

    drain(f, 1500, 0);
    finish(f, &result);
    g_assert_nonnull(strstr(result.why, "does not run"));
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 10000000);
    guest_words_result_clear(&result);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/guest-names/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("names", test_names);
    ADD("end", test_end);
    ADD("again", test_again);
    ADD("endless", test_endless);
    ADD("gone", test_gone);
    ADD("silent", test_silent);
    return g_test_run();
}
