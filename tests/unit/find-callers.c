/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail find --callers-of: calls from one address that was not the same
 * code each time, and what the options say
 */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "trace-samples.h"

#define WORK    UINT64_C(0xffffffff81000100)
#define MODULE  UINT64_C(0xffffffffc0562000)
#define PROGRAM UINT64_C(0x401000)

static const char own[] =
    "ffffffff81000000 T _text\n"
    "ffffffff81000100 T do_work\n"
    "ffffffff81000200 T other\n"
    "ffffffff81000300 D _end\n";
static const char dummy[] =
    "ffffffffc0562000 t dummy_xmit\t[dummy]\n"
    "ffffffffc0562100 e .end\t[dummy]\n";
static const char tun[] =
    "ffffffffc0562000 t tun_get\t[tun]\n"
    "ffffffffc0562100 e .end\t[tun]\n";

static void put(struct btrail_writer *w, uint16_t kind, uint64_t time,
                const char *text)
{
    const struct btrail_sideband_info info = {
        .kind = kind, .size = strlen(text), .time = time,
    };

    g_assert_cmpint(btrail_writer_sideband(w, &info, text), ==, 0);
}

static uint64_t written;        /* records */

/* A call of do_work, of a task at a time */
static void call(struct btrail_writer *w, uint64_t time, const char *comm,
                 unsigned pid, uint64_t from)
{
    const uint64_t index = written++;
    const struct btrail_record record = { from, WORK, 0 };
    struct btrail_event events[] = {
        {
            .index = index, .type = BTRAIL_EVENT_TIME,
            .data = { time, 0, BTRAIL_NO_ICOUNT },
        }, {
            .index = index, .type = BTRAIL_EVENT_TASK,
            .data = { (uint64_t)pid << 32 | pid },
        },
    };
    const struct btrail_slab slab = {
        .first_index = index, .cr3 = 0x5000, .records = &record,
        .n_records = 1, .events = events, .n_events = 2,
    };

    memcpy(&events[1].data[1], comm, strlen(comm));
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
}

/* Modules come and go, and so do processes, whose page table is the same. */
static void write_trace(const char *path)
{
    static const char meta[] = "{\"tick_ns\": 0}";
    struct btrail_writer *w;

    written = 0;
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 1000, own);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 1000, dummy);
    put(w, BTRAIL_SIDEBAND_HELD, 2000, "");
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 3000, tun);
    put(w, BTRAIL_SIDEBAND_HELD, 4000, "");
    call(w, 1500, "alpha", 10, MODULE + 4);
    call(w, 1501, "alpha", 10, PROGRAM);
    call(w, 1502, "alpha", 10, MODULE + 8);
    call(w, 1503, "alpha", 10, WORK + 0x110);
    call(w, 3500, "beta", 11, MODULE + 4);
    call(w, 3501, "beta", 11, PROGRAM);
    call(w, 3502, "beta", 11, PROGRAM + 2);
    call(w, 3503, "beta", 11, WORK + 0x110);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Runs the command; returns what it prints. */
static char *run(int want, const char *option, ...)
{
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    char *out = sample_path(), *path = sample_path(), *text;
    int saved = dup(STDOUT_FILENO);
    va_list list;

    write_trace(path);
    g_ptr_array_add(argv, (char *)"find");
    va_start(list, option);
    for (; option; option = va_arg(list, const char *)) {
        g_ptr_array_add(argv, (char *)option);
    }
    va_end(list);
    g_ptr_array_add(argv, path);
    g_ptr_array_add(argv, NULL);
    fflush(stdout);
    g_assert_nonnull(freopen(out, "w", stdout));
    g_assert_cmpint(cmd_find(argv->len - 1, (char **)argv->pdata), ==, want);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    g_assert_true(g_file_get_contents(out, &text, NULL, NULL));
    sample_remove(out);
    sample_remove(path);
    return text;
}

static void require(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        g_error("%s is not in:\n%s", part, text);
    }
}

/* Each call is of the function and the process that were there then. */
static void test_names(void)
{
    for (unsigned threads = 1; threads < 4; threads += 2) {
        g_autofree char *option = g_strdup_printf("--threads=%u", threads);
        g_autofree char *text = run(CLI_OK, "--callers-of=do_work", "--json",
                                    option, NULL);

        require(text, "{\"calls\":2,\"sym\":\"dummy_xmit\"");
        require(text, "{\"calls\":1,\"sym\":\"tun_get\"");
        require(text, "{\"calls\":2,\"sym\":\"other\"");
        require(text, "\"comm\":\"alpha\"");
        require(text, "{\"calls\":2,\"sym\":\"[unknown]\","
                "\"dso\":\"[unknown]\",\"comm\":\"beta\"}");
        /* The most frequent ones come first. */
        g_assert_true(strstr(text, "tun_get") > strstr(text, "beta"));
    }
}

/* The percentages are of all calls, also of those that are not printed. */
static void test_limit(void)
{
    g_autofree char *text = run(CLI_OK, "--callers-of=do_work", "--limit=1",
                                NULL);

    require(text, "         2  25.00%");
    require(text, "# ... and 4 more; see --limit\n");
    g_assert_null(strstr(text, "tun_get"));
}

/* Only what the other options choose counts. */
static void test_chosen(void)
{
    g_autofree char *late = run(CLI_OK, "--callers-of=do_work", "--json",
                                "--filter=comm == beta", NULL);
    g_autofree char *none = run(CLI_FAILED, "--callers-of=other", "--json",
                                NULL);

    require(late, "{\"calls\":1,\"sym\":\"tun_get\"");
    require(late, "{\"calls\":1,\"sym\":\"other\"");
    g_assert_null(strstr(late, "dummy_xmit"));
    g_assert_cmpstr(none, ==, "");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/find-callers/names", test_names);
    g_test_add_func("/find-callers/limit", test_limit);
    g_test_add_func("/find-callers/chosen", test_chosen);
    return g_test_run();
}
