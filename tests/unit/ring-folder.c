/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders of rings that processes have left, and those that are in use
 */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "lib/agent/chunk.h"
#include "scratch.h"
#include "service/ring-folder.h"

struct fixture {
    char *scratch;
    struct folder *folder;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->scratch = scratch_new();
    f->folder = folder_open(f->scratch, NULL);
    g_assert_nonnull(f->folder);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    folder_free(f->folder);
    scratch_remove(f->scratch);
}

static int make(struct fixture *f, char **name)
{
    GError *error = NULL;
    int fd = part_ring_folder_make(f->folder, name, &error);

    g_assert_no_error(error);
    g_assert_cmpint(fd, >=, 0);
    g_assert_true(g_str_has_prefix(*name, ".ring-"));
    return fd;
}

static bool is_there(struct fixture *f, const char *name)
{
    g_autofree char *path = g_build_filename(f->scratch, name, NULL);

    return g_file_test(path, G_FILE_TEST_IS_DIR);
}

static void write_file(struct fixture *f, const char *ring, const char *name,
                       size_t size)
{
    g_autofree char *path = g_build_filename(f->scratch, ring, name, NULL);
    g_autofree char *text = g_malloc0(size + 1);

    g_assert_true(g_file_set_contents(path, text, size, NULL));
}

static void test_held(struct fixture *f, gconstpointer data)
{
    g_autofree char *name = NULL;
    int fd = make(f, &name);

    part_ring_folder_remove_left(f->folder);
    g_assert_true(is_there(f, name));
    close(fd);
    part_ring_folder_remove_left(f->folder);
    g_assert_false(is_there(f, name));
}

/* The lock is the process's, and ends when that is killed. */
static void test_killed(struct fixture *f, gconstpointer data)
{
    g_autofree char *name = NULL;
    char buffer[64] = "";
    int pipes[2], status;
    pid_t pid;

    g_assert_cmpint(pipe(pipes), ==, 0);
    pid = fork();
    if (!pid) {
        make(f, &name);
        if (write(pipes[1], name, strlen(name)) > 0) {
            pause();
        }
        _exit(1);
    }
    g_assert_cmpint(read(pipes[0], buffer, sizeof(buffer) - 1), >, 0);
    part_ring_folder_remove_left(f->folder);
    g_assert_true(is_there(f, buffer));
    g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFSIGNALED(status));
    part_ring_folder_remove_left(f->folder);
    g_assert_false(is_there(f, buffer));
    close(pipes[0]);
    close(pipes[1]);
}

/* A header says nothing; more than that may be records. */
static void test_content(struct fixture *f, gconstpointer data)
{
    g_autofree char *begun = NULL, *full = NULL, *path = NULL;

    close(make(f, &begun));
    close(make(f, &full));
    write_file(f, begun, "ring.btrail", BTRAIL_FILE_HEADER_SIZE);
    write_file(f, begun, "ring.1.btrail", 0);
    write_file(f, full, "ring.btrail", 0);
    write_file(f, full, "ring.1.btrail", BTRAIL_FILE_HEADER_SIZE + 1);
    part_ring_folder_remove_left(f->folder);
    g_assert_false(is_there(f, begun));
    g_assert_true(is_there(f, full));
    /* All that is in it is as it was. */
    path = g_build_filename(f->scratch, full, "ring.btrail", NULL);
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
}

/* Files that are complete, or cut off, and have no record are nothing to keep. */
static void test_records(struct fixture *f, gconstpointer data)
{
    static const struct btrail_record record = { 0x1000, 0x2000, 0 };
    static const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .data = { 1, 1, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .cr3 = 0x1000, .records = &record, .n_records = 1, .events = &time,
        .n_events = 1,
    };

    for (unsigned i = 0; i < 3; i++) {
        const bool records = i == 1, cut = i == 2;
        g_autofree char *name = NULL, *path = NULL;
        struct btrail_writer *w;

        close(make(f, &name));
        path = g_build_filename(f->scratch, name, "ring.btrail", NULL);
        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        g_assert_cmpint(btrail_writer_meta(w, "{}", 2), ==, 0);
        if (records) {
            g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        }
        g_assert_cmpint(btrail_writer_close(w), ==, 0);
        if (cut) {
            g_assert_cmpint(truncate(path, BTRAIL_FILE_HEADER_SIZE + 50), ==,
                            0);
        }
        part_ring_folder_remove_left(f->folder);
        g_assert_cmpint(is_there(f, name), ==, records);
    }
}

/* Only folders of this name, and what is in the guest's folder itself */
static void test_others(struct fixture *f, gconstpointer data)
{
    static const char *const names[] = { "ring-1", ".rings", "outside/x" };
    g_autofree char *make_them = g_strdup_printf(
        "cd %s && mkdir -p ring-1 .rings outside/x && "
        "ln -s outside .ring-1 && : >.ring-2 && mkdir .ring-3 && "
        "ln -s ../outside .ring-3/link", f->scratch);
    g_autofree char *file = g_build_filename(f->scratch, ".ring-2", NULL);

    g_assert_cmpint(system(make_them), ==, 0);
    part_ring_folder_remove_left(f->folder);
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_true(is_there(f, names[i]));
    }
    g_assert_true(is_there(f, ".ring-1"));
    g_assert_true(is_there(f, ".ring-3"));
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
}

static void test_no_folder(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *name = NULL;

    g_assert_cmpint(g_rmdir(f->scratch), ==, 0);
    g_assert_cmpint(part_ring_folder_make(f->folder, &name, &error), ==, -1);
    g_assert_nonnull(error);
    g_assert_null(name);
    part_ring_folder_remove_left(f->folder);
    g_assert_cmpint(g_mkdir(f->scratch, 0700), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/ring-folder/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("held", test_held);
    ADD("killed", test_killed);
    ADD("content", test_content);
    ADD("records", test_records);
    ADD("others", test_others);
    ADD("no-folder", test_no_folder);
#undef ADD
    return g_test_run();
}
