/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-tools/names/proc.h, with the processes of this machine
 */

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "backtrail/names.h"
#include "proc.h"

#define SIZE    4096
#define NAME    "a) (b c"

static struct outbox out;
static struct tsc_clock tsc;

static void start(void)
{
    g_assert_true(outbox_init(&out));
    memset(&tsc, 0, sizeof(tsc));
    tsc_clock_update(&tsc);
}

/* The next message from *@at on, of which the text is at *@text; NULL: none */
static const void *message(size_t *at, uint16_t *type, const char **text)
{
    struct btrail_guest_header h;
    static const size_t sizes[] = {
        [BTRAIL_GUEST_PROCESS] = sizeof(struct btrail_guest_process),
        [BTRAIL_GUEST_THREAD] = sizeof(struct btrail_guest_thread),
        [BTRAIL_GUEST_MAPPING] = sizeof(struct btrail_guest_mapping),
        [BTRAIL_GUEST_LISTING] = sizeof(struct btrail_guest_listing),
    };
    static union {
        char bytes[BTRAIL_GUEST_MESSAGE_MAX + 1];
        uint64_t aligned;
    } m;

    g_assert_cmpuint(out.first, ==, 0);
    if (*at == out.used) {
        return NULL;
    }
    memcpy(&h, out.data + *at, sizeof(h));
    g_assert_cmpuint(h.size, <=, BTRAIL_GUEST_MESSAGE_MAX);
    memcpy(m.bytes, out.data + *at + sizeof(h), h.size);
    m.bytes[h.size] = 0;
    *at += sizeof(h) + h.size;
    *type = h.type;
    g_assert_cmpuint(h.type, <, G_N_ELEMENTS(sizes));
    g_assert_cmpuint(sizes[h.type], !=, 0);
    *text = m.bytes + sizes[h.type];
    return &m;
}

/* A name can have what the line in /proc is made of. */
static void test_process(void)
{
    const struct btrail_guest_process *p;
    const struct btrail_guest_thread *t;
    g_autofree char *exe = g_file_read_link("/proc/self/exe", NULL);
    unsigned threads = 0;
    const char *text;
    uint16_t type;
    size_t at = 0;

    start();
    g_assert_cmpint(prctl(PR_SET_NAME, NAME), ==, 0);
    g_assert_true(proc_describe(&out, &tsc, (uint32_t)getpid(), 0));
    p = message(&at, &type, &text);
    g_assert_cmpuint(type, ==, BTRAIL_GUEST_PROCESS);
    g_assert_cmpuint(p->pid, ==, getpid());
    g_assert_cmpuint(p->parent, ==, getppid());
    g_assert_cmpuint(p->flags, ==, 0);
    g_assert_cmpuint(p->comm_size, ==, strlen(NAME));
    g_assert_true(g_str_has_prefix(text, NAME));
    g_assert_cmpuint(p->exe_size, ==, strlen(exe));
    g_assert_true(g_str_has_prefix(text + strlen(NAME), exe));
    g_assert_cmpuint(p->command_size, >, 0);
    while ((t = message(&at, &type, &text))) {
        if (type == BTRAIL_GUEST_THREAD) {
            g_assert_cmpuint(t->pid, ==, getpid());
            g_assert_cmpstr(text, ==, NAME);
            threads++;
        }
    }
    g_assert_cmpuint(threads, ==, 1);
    /* One that is gone, and no room */
    outbox_clear(&out);
    g_assert_true(proc_describe(&out, &tsc, INT32_MAX, 0));
    g_assert_cmpuint(out.used, ==, 0);
    g_assert_false(proc_describe(&out, &tsc, (uint32_t)getpid(),
                                 OUTBOX_SIZE));
    g_assert_cmpuint(out.used, ==, 0);
    outbox_free(&out);
}

/* Returns the flags of the mapping at an address, of which the path is @path;
 * UINT32_MAX if it is not described. */
static uint32_t flags_of(const void *address, const char *path)
{
    const struct btrail_guest_mapping *m;
    uint32_t flags = UINT32_MAX;
    const char *text;
    uint16_t type;
    size_t at = 0;

    outbox_clear(&out);
    g_assert_true(proc_describe(&out, &tsc, (uint32_t)getpid(), 0));
    while ((m = message(&at, &type, &text))) {
        if (type == BTRAIL_GUEST_MAPPING && m->start == (uintptr_t)address) {
            g_assert_cmpuint(flags, ==, UINT32_MAX);
            g_assert_cmpuint(m->end - m->start, ==, SIZE);
            g_assert_cmpuint(m->path_size, ==, strlen(path));
            g_assert_cmpstr(text, ==, path);
            flags = m->flags;
        }
    }
    return flags;
}

static void test_mappings(void)
{
    g_autofree char *path = g_strdup_printf("/tmp/backtrail-proc-%d\nx",
                                            getpid());
    const uint32_t code = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC;
    char bytes[SIZE] = "code";
    void *p, *data, *anonymous;
    int fd;

    g_assert_true(g_file_set_contents(path, bytes, sizeof(bytes), NULL));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    p = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        g_test_skip("files in /tmp cannot be executed");
        g_unlink(path);
        return;
    }
    start();
    data = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    anonymous = mmap(NULL, SIZE, PROT_READ | PROT_EXEC,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g_assert_cmphex(flags_of(p, path), ==, code | BTRAIL_MAPPING_FILE);
    g_assert_cmphex(flags_of(data, path), ==, UINT32_MAX);
    /* Shared memory is a deleted file of the kernel's own. */
    g_assert_cmphex(flags_of(anonymous, "/dev/zero"), ==,
                    code | BTRAIL_MAPPING_SHARED | BTRAIL_MAPPING_FILE |
                    BTRAIL_MAPPING_DELETED);
    g_unlink(path);
    g_assert_cmphex(flags_of(p, path), ==, code | BTRAIL_MAPPING_FILE |
                    BTRAIL_MAPPING_DELETED);
    munmap(p, SIZE);
    munmap(data, SIZE);
    munmap(anonymous, SIZE);
    close(fd);
    outbox_free(&out);
}

/* A list begins and ends, with all that was there then in between. */
static void test_list(void)
{
    struct proc_list list = { 0 };
    const struct btrail_guest_process *p;
    unsigned ends = 0, begins = 0, found = 0;
    const char *text;
    uint16_t type;
    size_t at = 0;

    start();
    proc_list_begin(&list);
    g_assert_true(list.active);
    g_assert_cmpuint(list.n, >, 0);
    /* There is no time. */
    proc_list_step(&list, &out, &tsc, 0);
    g_assert_true(list.active && list.begun);
    g_assert_cmpuint(list.next, ==, 0);
    /* Others may be many. */
    list.pids[0] = (uint32_t)getpid();
    list.n = 1;
    proc_list_step(&list, &out, &tsc, UINT64_MAX);
    g_assert_false(list.active);
    while ((p = message(&at, &type, &text))) {
        if (type == BTRAIL_GUEST_LISTING) {
            const struct btrail_guest_listing *l = (const void *)p;

            g_assert_cmpuint(begins, ==, l->end);
            begins += !l->end;
            ends += l->end;
        } else if (type == BTRAIL_GUEST_PROCESS) {
            g_assert_cmpuint(begins - ends, ==, 1);
            g_assert_cmpuint(p->pid, ==, getpid());
            found++;
        }
    }
    g_assert_cmpuint(ends, ==, 1);
    g_assert_cmpuint(found, ==, 1);
    proc_list_end(&list);
    outbox_free(&out);
}

static void test_paths(void)
{
    char deleted[] = "/bin/a (deleted)", kept[] = "[x] (deleted)";
    char only[] = " (deleted)";
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];

    g_assert_true(proc_cut_deleted(deleted));
    g_assert_cmpstr(deleted, ==, "/bin/a");
    g_assert_false(proc_cut_deleted(deleted));
    g_assert_false(proc_cut_deleted(kept));
    g_assert_false(proc_cut_deleted(only));
    g_assert_true(proc_is_anonymous(""));
    g_assert_true(proc_is_anonymous("[anon:x]"));
    g_assert_true(proc_is_anonymous("/memfd:jit"));
    g_assert_false(proc_is_anonymous("[vdso]"));
    g_assert_false(proc_is_anonymous("/bin/a"));
    g_assert_cmpuint(proc_build_id(1, "[vdso]", 0, 1, id), ==, 0);
    g_assert_cmpuint(proc_build_id(1, "/bin/sh", 0, 0, id), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/proc/process", test_process);
    g_test_add_func("/proc/mappings", test_mappings);
    g_test_add_func("/proc/list", test_list);
    g_test_add_func("/proc/paths", test_paths);
    return g_test_run();
}
