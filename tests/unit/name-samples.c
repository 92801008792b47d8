/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What backtrail-guest-names says, for tests: see name-samples.h
 */

#include <string.h>

#include "backtrail/names.h"

#include "name-samples.h"

void say(GByteArray *to, uint16_t type, const void *fixed, size_t size,
         const char *texts)
{
    struct btrail_guest_header header = {
        .size = (uint32_t)(size + strlen(texts)), .type = type,
    };

    g_byte_array_append(to, (const void *)&header, sizeof(header));
    g_byte_array_append(to, fixed, (guint)size);
    g_byte_array_append(to, (const void *)texts, (guint)strlen(texts));
}

void say_hello(GByteArray *to, uint64_t nonce, uint32_t flags)
{
    struct btrail_guest_hello m = {
        .magic = BTRAIL_GUEST_MAGIC, .nonce = nonce,
        .version = BTRAIL_GUEST_VERSION, .flags = flags, .cpus = 2,
        .release_size = 6,
    };

    say(to, BTRAIL_GUEST_HELLO, &m, sizeof(m), "6.12.0");
}

void say_listing(GByteArray *to, uint64_t time, bool end)
{
    struct btrail_guest_listing m = { .time = time, .end = end };

    say(to, BTRAIL_GUEST_LISTING, &m, sizeof(m), "");
}

void say_process(GByteArray *to, uint64_t time, uint32_t pid, const char *comm)
{
    struct btrail_guest_process m = {
        .time = time, .begin = 1, .start_time = pid * 1000, .pid = pid,
        .parent = 1,
        .comm_size = (uint32_t)strlen(comm),
        .exe_size = (uint32_t)strlen(comm) + 5,
    };
    g_autofree char *texts = g_strdup_printf("%s/bin/%s", comm, comm);

    say(to, BTRAIL_GUEST_PROCESS, &m, sizeof(m), texts);
    say_thread(to, time, pid, pid);
}

void say_kernel_thread(GByteArray *to, uint64_t time, uint32_t pid)
{
    struct btrail_guest_process m = {
        .time = time, .pid = pid, .flags = BTRAIL_GUEST_PROCESS_KERNEL,
        .comm_size = 8,
    };

    say(to, BTRAIL_GUEST_PROCESS, &m, sizeof(m), "kthreadd");
}

void say_thread(GByteArray *to, uint64_t time, uint32_t pid, uint32_t tid)
{
    struct btrail_guest_thread m = {
        .time = time, .start_time = tid * 1000, .pid = pid, .tid = tid,
        .comm_size = 6,
    };

    say(to, BTRAIL_GUEST_THREAD, &m, sizeof(m), "thread");
}

void say_mapping(GByteArray *to, uint64_t time, uint32_t pid, uint64_t start,
                 unsigned pages, const char *path)
{
    struct btrail_guest_mapping m = {
        .time = time, .start = start, .end = start + pages * 4096,
        .offset = 0x1000, .pid = pid,
        .flags = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC,
        .path_size = (uint32_t)strlen(path), .build_id_size = 4,
    };
    g_autofree char *texts = g_strconcat(path, "abcd", NULL);

    say(to, BTRAIL_GUEST_MAPPING, &m, sizeof(m), texts);
}

void say_fork(GByteArray *to, uint64_t time, uint32_t parent, uint32_t pid)
{
    struct btrail_guest_fork m = {
        .time = time, .pid = pid, .tid = pid, .parent = parent,
        .parent_tid = parent,
    };

    say(to, BTRAIL_GUEST_FORK, &m, sizeof(m), "");
}

void say_exit(GByteArray *to, uint64_t time, uint32_t pid, uint32_t tid)
{
    struct btrail_guest_exit m = { .time = time, .pid = pid, .tid = tid };

    say(to, BTRAIL_GUEST_EXIT, &m, sizeof(m), "");
}

void say_name(GByteArray *to, uint64_t time, uint32_t pid, bool exec,
              const char *comm)
{
    struct btrail_guest_name m = {
        .time = time, .pid = pid, .tid = pid,
        .flags = exec ? BTRAIL_GUEST_NAME_EXEC : 0,
        .comm_size = (uint32_t)strlen(comm),
    };

    say(to, BTRAIL_GUEST_NAME, &m, sizeof(m), comm);
}

void say_switches(GByteArray *to, uint32_t cpu,
                  const struct btrail_guest_switch *list)
{
    struct {
        struct btrail_guest_switches head;
        struct btrail_guest_switch list[64];
    } m = { .head = { .cpu = cpu } };
    uint32_t *n = &m.head.n;

    while (list[*n].time) {
        g_assert_cmpuint(*n, <, G_N_ELEMENTS(m.list));
        m.list[*n] = list[*n];
        ++*n;
    }
    say(to, BTRAIL_GUEST_SWITCHES, &m, sizeof(m.head) + *n * sizeof(*list), "");
}

void say_up_to(GByteArray *to, uint64_t time)
{
    struct btrail_guest_up_to m = { time };

    say(to, BTRAIL_GUEST_UP_TO, &m, sizeof(m), "");
}

void say_functions(GByteArray *to, uint64_t time, uint32_t pid, uint32_t flags,
                   const char *lines)
{
    struct btrail_guest_functions m = {
        .time = time, .pid = pid, .flags = flags,
        .size = (uint32_t)strlen(lines),
    };

    say(to, BTRAIL_GUEST_FUNCTIONS, &m, sizeof(m), lines);
}

void say_content(GByteArray *to, uint64_t at, uint64_t total, uint32_t error,
                 const char *piece)
{
    struct btrail_guest_content m = {
        .at = at, .total = total, .error = error,
        .size = (uint32_t)strlen(piece),
    };

    say(to, BTRAIL_GUEST_CONTENT, &m, sizeof(m), piece);
}

void say_symbols(GByteArray *to, uint32_t flags, const char *text)
{
    struct btrail_guest_symbols m = { flags, (uint32_t)strlen(text) };

    say(to, BTRAIL_GUEST_SYMBOLS, &m, sizeof(m), text);
}

void hear(const GByteArray *said, name_reader_fn *fn, void *opaque)
{
    struct name_reader *r = name_reader_new(SAMPLE_NONCE);
    g_autoptr(GByteArray) hello = g_byte_array_new();
    char *why;

    say_hello(hello, SAMPLE_NONCE, 0);
    g_assert_true(name_reader_feed(r, hello->data, hello->len, fn, opaque,
                                   &why));
    name_reader_feed(r, said->data, said->len, fn, opaque, &why);
    g_assert_cmpstr(why, ==, NULL);
    name_reader_free(r);
}
