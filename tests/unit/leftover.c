/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces of a service that was killed: continued and completed
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "scratch.h"
#include "service/leftover.h"
#include "trace-samples.h"
#include "util/json.h"

#define CHUNKS  2
/* Both vCPUs have as many. */
#define END     (CHUNKS * SAMPLE_CHUNK_RECORDS + SAMPLE_LOST)

struct fixture {
    char *sample;               /* in a folder that is removed */
    struct folder *folder;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = NULL;

    f->sample = sample_path();
    path = g_path_get_dirname(f->sample);
    f->folder = folder_open(path, NULL);
    g_assert_nonnull(f->folder);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    folder_free(f->folder);
    sample_remove(f->sample);
}

static char *in_folder(struct fixture *f, const char *name)
{
    g_autofree char *folder = g_path_get_dirname(f->sample);

    return g_build_filename(folder, name, NULL);
}

static void test_look(struct fixture *f, gconstpointer data)
{
    const uint8_t id[16] = "sixteen letters";
    const struct btrail_writer_options options = { .id = id };
    g_autofree char *path = in_folder(f, "left.btrail");
    struct leftover *l;
    GStatBuf st;

    sample_write_with(path, CHUNKS, &options);
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    l = leftover_inspect(f->folder, "left.btrail", NULL);
    g_assert_nonnull(l);
    g_assert_cmpmem(l->id, sizeof(l->id), id, sizeof(id));
    g_assert_cmpuint(l->indices->len, ==, 4);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 0), ==, END);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 1), ==, 0);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 3), ==, END);
    g_assert_cmpuint(l->records, ==, 2 * CHUNKS * SAMPLE_CHUNK_RECORDS);
    g_assert_cmpuint(l->bytes, ==, st.st_size);
    g_assert_cmpuint(l->lost, ==, 2 * SAMPLE_LOST);
    leftover_free(l);
    leftover_free(NULL);
}

/* What is no trace cannot be continued. */
static void test_nothing(struct fixture *f, gconstpointer data)
{
    static const char *const names[] = {
        "missing.btrail", "empty.btrail", "text.btrail", "link.btrail",
    };
    g_autofree char *empty = in_folder(f, "empty.btrail");
    g_autofree char *text = in_folder(f, "text.btrail");
    g_autofree char *whole = in_folder(f, "whole.btrail");
    g_autofree char *link = in_folder(f, "link.btrail");
    unsigned i;

    g_assert_true(g_file_set_contents(empty, "", 0, NULL));
    g_assert_true(g_file_set_contents(text, "some text\n", -1, NULL));
    sample_write(whole, 1);
    g_assert_cmpint(symlink("whole.btrail", link), ==, 0);
    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GError) error = NULL;

        g_test_message("%s", names[i]);
        g_assert_null(leftover_inspect(f->folder, names[i], &error));
        g_assert_nonnull(error);
    }
}

static bool is_whole(const char *path)
{
    struct btrail_trace_status status = { 0 };
    struct btrail_trace *trace;

    if (!btrail_trace_open(&trace, path)) {
        g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
        btrail_trace_close(trace);
    }
    return status.complete && !status.cut_bytes;
}

static void cut(const char *path)
{
    GStatBuf st;

    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(truncate(path, st.st_size - 1), ==, 0);
}

static JsonObject *session(const char *file)
{
    return btrail_json_new("o:command", btrail_json_new(
        "s:do", "start", "s:session", "a/b", "s:file", file, NULL), NULL);
}

/* Writes a file that was cut off. */
static void write_cut(const char *path)
{
    sample_write(path, CHUNKS);
    cut(path);
    g_assert_false(is_whole(path));
}

/* Any part may be cut off, if several processes were killed. */
static void test_complete(struct fixture *f, gconstpointer data)
{
    static const char *const names[] = {
        "left.btrail", "left.1.btrail", "left.2.btrail", "left.3.btrail",
        "left.4.btrail", "left.5.btrail",
    };
    g_autoptr(JsonObject) s = session("left.btrail");
    g_autofree char *first = in_folder(f, names[0]);
    g_autofree char *second = in_folder(f, names[1]);
    g_autofree char *last = in_folder(f, names[5]);

    for (unsigned i = 0; i < 5; i++) {
        g_autofree char *path = in_folder(f, names[i]);

        if (i == 1) {
            sample_write(path, CHUNKS);
        } else {
            write_cut(path);
        }
    }
    /* Whoever has made it was killed before it had a header. */
    g_assert_true(g_file_set_contents(last, "", 0, NULL));
    g_assert_cmpuint(leftover_last_part(first), ==, 5);
    json_object_set_int_member(s, "parts", 0);
    g_assert_true(leftover_complete(f->folder, s));
    g_assert_false(is_whole(first));
    json_object_set_int_member(s, "parts", 4);
    g_assert_true(leftover_complete(f->folder, s));
    for (unsigned i = 0; i < 5; i++) {
        g_autofree char *path = in_folder(f, names[i]);

        g_assert_cmpint(is_whole(path), ==, i != 4);
    }
    json_object_remove_member(s, "parts");
    g_assert_true(leftover_complete(f->folder, s));
    for (unsigned i = 0; i < 5; i++) {
        g_autofree char *path = in_folder(f, names[i]);

        g_assert_true(is_whole(path));
    }
    g_assert_false(g_file_test(last, G_FILE_TEST_EXISTS));
    g_assert_cmpuint(leftover_last_part(first), ==, 4);
    g_assert_true(is_whole(second));
}

/* A ring is kept, and its files are completed; so are dumps. */
static void test_ring(struct fixture *f, gconstpointer data)
{
    g_autoptr(JsonObject) s = session("end.btrail");
    JsonArray *dumps = json_array_new();
    g_autofree char *ring = in_folder(f, ".ring-1");
    g_autofree char *dump = in_folder(f, "dump.btrail");
    g_autofree char *part = g_build_filename(ring, "ring.7.btrail", NULL);
    g_autofree char *names = g_build_filename(ring, "names-0.btrail", NULL);
    g_autofree char *fifo = g_build_filename(ring, "x.btrail", NULL);
    g_autofree char *folder = g_path_get_dirname(f->sample);
    g_autoptr(GDir) dir = NULL;
    const char *name;
    unsigned kept = 0;

    g_assert_cmpint(g_mkdir(ring, 0700), ==, 0);
    write_cut(part);
    write_cut(names);
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    write_cut(dump);
    json_array_add_string_element(dumps, "dump.btrail");
    json_array_add_string_element(dumps, "missing.btrail");
    btrail_json_add(s, "s:ring", ".ring-1", "a:dumps", dumps, NULL);
    g_assert_true(leftover_complete(f->folder, s));
    g_assert_true(is_whole(dump));
    g_assert_false(g_file_test(ring, G_FILE_TEST_EXISTS));
    dir = g_dir_open(folder, 0, NULL);
    while ((name = g_dir_read_name(dir))) {
        if (g_str_has_prefix(name, "a-b-before-")) {
            g_autofree char *a = g_build_filename(folder, name,
                                                  "ring.7.btrail", NULL);
            g_autofree char *b = g_build_filename(folder, name,
                                                  "names-0.btrail", NULL);

            g_assert_null(strchr(name, '.'));
            g_assert_true(is_whole(a));
            g_assert_true(is_whole(b));
            kept++;
            scratch_remove(g_build_filename(folder, name, NULL));
        }
    }
    g_assert_cmpuint(kept, ==, 1);
    /* There is nothing more to do, and that is no failure. */
    g_assert_true(leftover_complete(f->folder, s));
}

/* What somebody else is about to change stays for later. */
static void test_later(struct fixture *f, gconstpointer data)
{
    g_autoptr(JsonObject) s = session("left.btrail");
    g_autofree char *path = in_folder(f, "left.btrail");
    int fd;

    write_cut(path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    g_assert_cmpint(flock(fd, LOCK_EX | LOCK_NB), ==, 0);
    g_assert_false(leftover_complete(f->folder, s));
    close(fd);
    g_assert_true(leftover_complete(f->folder, s));
    g_assert_true(is_whole(path));
    /* What is no trace never becomes one. */
    g_assert_true(g_file_set_contents(path, "some text", -1, NULL));
    g_assert_true(leftover_complete(f->folder, s));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/leftover/look", struct fixture, NULL, set_up, test_look,
               tear_down);
    g_test_add("/leftover/nothing", struct fixture, NULL, set_up, test_nothing,
               tear_down);
    g_test_add("/leftover/complete", struct fixture, NULL, set_up,
               test_complete, tear_down);
    g_test_add("/leftover/ring", struct fixture, NULL, set_up, test_ring,
               tear_down);
    g_test_add("/leftover/later", struct fixture, NULL, set_up, test_later,
               tear_down);
    return g_test_run();
}
