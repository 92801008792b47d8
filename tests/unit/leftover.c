/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces of a service that was killed: continued and completed
 */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "service/leftover.h"
#include "trace-samples.h"

#define CHUNKS  2
/* Both vCPUs have as many. */
#define END     (CHUNKS * SAMPLE_CHUNK_RECORDS + SAMPLE_LOST)

struct fixture {
    char *sample;               /* in a folder that is removed */
    struct btrail_folder *folder;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = NULL;

    f->sample = sample_path();
    path = g_path_get_dirname(f->sample);
    f->folder = btrail_folder_open(path, NULL);
    g_assert_nonnull(f->folder);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    btrail_folder_free(f->folder);
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
    struct btrail_leftover *l;
    GStatBuf st;

    sample_write_with(path, CHUNKS, &options);
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    l = btrail_leftover_inspect(f->folder, "left.btrail", NULL);
    g_assert_nonnull(l);
    g_assert_cmpmem(l->id, sizeof(l->id), id, sizeof(id));
    g_assert_cmpuint(l->indices->len, ==, 4);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 0), ==, END);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 1), ==, 0);
    g_assert_cmpuint(g_array_index(l->indices, uint64_t, 3), ==, END);
    g_assert_cmpuint(l->records, ==, 2 * CHUNKS * SAMPLE_CHUNK_RECORDS);
    g_assert_cmpuint(l->bytes, ==, st.st_size);
    btrail_leftover_free(l);
    btrail_leftover_free(NULL);
}

/* What is no trace is nothing to go on with. */
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
        g_assert_null(btrail_leftover_inspect(f->folder, names[i], &error));
        g_assert_nonnull(error);
    }
}

static void wait_complete(const char *path)
{
    struct btrail_trace_status status = { 0 };

    while (!status.complete) {
        struct btrail_trace *trace;

        g_usleep(1000);
        if (!btrail_trace_open(&trace, path)) {
            g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
            btrail_trace_close(trace);
        }
    }
    g_assert_cmpuint(status.cut_bytes, ==, 0);
}

static void cut(const char *path)
{
    GStatBuf st;

    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(truncate(path, st.st_size - 1), ==, 0);
}

/* The last part of a trace is what may be cut off. */
static void test_complete(struct fixture *f, gconstpointer data)
{
    g_autoptr(JsonObject) s = json_object_new();
    JsonObject *command = json_object_new();
    g_autofree char *first = in_folder(f, "left.btrail");
    g_autofree char *third = in_folder(f, "left.3.btrail");
    g_autofree char *ring = in_folder(f, ".ring-1");
    g_autoptr(GDir) dir = NULL;
    g_autofree char *path = NULL;
    unsigned kept = 0;
    const char *name;

    sample_write(first, CHUNKS);
    g_assert_cmpuint(btrail_leftover_last_part(first), ==, 0);
    sample_write(third, CHUNKS);
    g_assert_cmpuint(btrail_leftover_last_part(first), ==, 3);
    cut(third);
    g_assert_cmpint(g_mkdir(ring, 0700), ==, 0);
    json_object_set_string_member(command, "do", "start");
    json_object_set_string_member(command, "session", "a/b");
    json_object_set_string_member(command, "file", "left.btrail");
    json_object_set_object_member(s, "command", command);
    json_object_set_string_member(s, "ring", ".ring-1");
    btrail_leftover_complete(f->folder, s);
    wait_complete(third);
    g_assert_false(g_file_test(ring, G_FILE_TEST_EXISTS));
    path = g_path_get_dirname(f->sample);
    dir = g_dir_open(path, 0, NULL);
    while ((name = g_dir_read_name(dir))) {
        kept += g_str_has_prefix(name, "a-b-before-") && !strchr(name, '.');
    }
    g_assert_cmpuint(kept, ==, 1);
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
    return g_test_run();
}
