/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of saved-checkpoints.c: what is not whole, or not ours, is not used
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/saved-checkpoints.h"
#include "scratch.h"

/* Two chunks, of which the last one is not full */
#define SIZE    ((4u << 20) + 12345)
#define QEMU    "00"
#define COUNT   77

struct fixture {
    char *folder;
    char *file;
    struct recording *r;
    uint8_t *bytes;
};

static void write_bytes(const char *path, const char *bytes, gsize size)
{
    /* GLib does not cut off what is longer. */
    g_unlink(path);
    g_assert_true(g_file_set_contents_full(
        path, bytes, size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
}

static void write_file(struct fixture *f, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(f->folder, name, NULL);

    write_bytes(path, text, strlen(text));
}

/* What QEMU does */
struct writer {
    const uint8_t *bytes;
    int to;
};

static void *write_all(void *opaque)
{
    const struct writer *w = opaque;

    for (size_t at = 0; at < SIZE;) {
        ssize_t n = write(w->to, w->bytes + at, MIN(50000, SIZE - at));

        if (n < 0) {
            break;
        }
        at += n;
    }
    close(w->to);
    return NULL;
}

static bool save(struct fixture *f, bool ok)
{
    struct checkpoint_saver *s;
    struct writer w = { .bytes = f->bytes };
    GThread *thread;
    int ends[2];

    g_assert_cmpint(pipe(ends), ==, 0);
    w.to = ends[1];
    s = checkpoint_saver_start(f->r, QEMU, COUNT, ends[0]);
    thread = g_thread_new(NULL, write_all, &w);
    g_thread_join(thread);
    return checkpoint_saver_finish(s, ok, NULL);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->file = g_build_filename(f->folder, "checkpoints", NULL);
    f->r = recording_new(f->folder);
    f->bytes = g_malloc(SIZE);
    /* It does not become much shorter. */
    for (unsigned i = 0; i < SIZE; i++) {
        f->bytes[i] = g_random_int();
    }
    write_file(f, "recording.json", "manifest");
    write_file(f, "replay.log", "log");
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
    recording_free(f->r);
    g_free(f->file);
    g_free(f->bytes);
}

static void is_used(struct fixture *f)
{
    g_autoptr(GError) error = NULL;
    int fd = saved_checkpoints_open(f->r, QEMU, &error);
    struct saved_checkpoints_info info;
    struct stat st;
    uint8_t *bytes;

    g_assert_no_error(error);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(fstat(fd, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, SIZE);
    bytes = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    g_assert_true(bytes != MAP_FAILED);
    g_assert_true(!memcmp(bytes, f->bytes, SIZE));
    munmap(bytes, SIZE);
    /* Nobody can change it. */
    g_assert_cmpint(pwrite(fd, "", 1, 0), <, 0);
    g_assert_cmpint(ftruncate(fd, 0), <, 0);
    close(fd);
    g_assert_true(saved_checkpoints_info(f->r, QEMU, &info, NULL));
    g_assert_cmpuint(info.count, ==, COUNT);
    g_assert_cmpuint(info.memory, ==, SIZE);
    g_assert_cmpint(g_stat(f->file, &st), ==, 0);
    g_assert_cmpuint(info.bytes, ==, st.st_size);
}

static void is_refused(struct fixture *f, const char *qemu)
{
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(saved_checkpoints_open(f->r, qemu, &error), ==, -1);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
}

static void test_saved(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    struct saved_checkpoints_info info;

    g_assert_cmpint(saved_checkpoints_open(f->r, QEMU, &error), ==, -1);
    g_assert_no_error(error);
    g_assert_false(saved_checkpoints_info(f->r, QEMU, &info, &error));
    g_assert_no_error(error);
    g_assert_true(save(f, true));
    is_used(f);
    /* What fails changes nothing. */
    f->bytes[0]++;
    g_assert_false(save(f, false));
    f->bytes[0]--;
    is_used(f);
}

static void test_others(struct fixture *f, gconstpointer data)
{
    g_autofree char *key = g_build_filename(g_get_user_state_dir(),
                                            "backtrail", "key", NULL);

    g_assert_true(save(f, true));
    is_refused(f, "01");
    write_file(f, "replay.log", "lag");
    is_refused(f, QEMU);
    write_file(f, "replay.log", "log");
    is_used(f);
    write_file(f, "recording.json", "manifesto");
    is_refused(f, QEMU);
    write_file(f, "recording.json", "manifest");
    is_used(f);
    /* Another user's: this one has another key. */
    g_assert_cmpint(g_unlink(key), ==, 0);
    g_assert_cmpint(saved_checkpoints_open(f->r, QEMU, NULL), ==, -1);
    write_bytes(key, "0123456789abcdef0123456789abcdef", 32);
    is_refused(f, QEMU);
    /* They are made anew. */
    g_assert_true(save(f, true));
    is_used(f);
}

/* Any bit of it */
static void test_damaged(struct fixture *f, gconstpointer data)
{
    static const unsigned at[] = {
        0, 7, 8, 24, 56, 60, 64, 68, 72, 103, 104, 107, 108, 140, 5000
    };
    g_autofree char *whole = NULL;
    gsize size;

    g_assert_true(save(f, true));
    g_assert_true(g_file_get_contents(f->file, &whole, &size, NULL));
    for (unsigned i = 0; i < G_N_ELEMENTS(at) + 5; i++) {
        gsize byte = i < G_N_ELEMENTS(at) ? at[i] :
                     (gsize)g_test_rand_int_range(0, size);

        whole[byte] ^= 1 << i % 8;
        write_bytes(f->file, whole, size);
        is_refused(f, QEMU);
        whole[byte] ^= 1 << i % 8;
    }
    for (unsigned i = 0; i < 5; i++) {
        write_bytes(f->file, whole, g_test_rand_int_range(0, size));
        is_refused(f, QEMU);
    }
    write_bytes(f->file, whole, size - 1);
    is_refused(f, QEMU);
    whole = g_realloc(whole, size + 1);
    whole[size] = 0;
    write_bytes(f->file, whole, size + 1);
    is_refused(f, QEMU);
    write_bytes(f->file, whole, size);
    is_used(f);
}

/* Chunks in another order, and those of another file of this user */
static void test_chunks(struct fixture *f, gconstpointer data)
{
    g_autofree char *first = NULL, *second = NULL;
    gsize size, other;

    g_assert_true(save(f, true));
    g_assert_true(g_file_get_contents(f->file, &first, &size, NULL));
    g_assert_true(save(f, true));
    g_assert_true(g_file_get_contents(f->file, &second, &other, NULL));
    g_assert_cmpuint(size, ==, other);
    memcpy(second + 104, first + 104, size - 104);
    write_bytes(f->file, second, size);
    is_refused(f, QEMU);
}

static void test_no_file(struct fixture *f, gconstpointer data)
{
    g_autofree char *kept = g_build_filename(f->folder, "kept", NULL);
    g_autofree char *text = NULL;

    write_file(f, "kept", "as it was");
    g_assert_cmpint(symlink("kept", f->file), ==, 0);
    g_assert_cmpint(saved_checkpoints_open(f->r, QEMU, NULL), ==, -1);
    g_assert_true(save(f, true));
    is_used(f);
    g_assert_true(g_file_get_contents(kept, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "as it was");
    g_assert_cmpint(g_unlink(f->file), ==, 0);
    g_assert_cmpint(mkfifo(f->file, 0600), ==, 0);
    is_refused(f, QEMU);
}

#define ADD(name, func) \
    g_test_add("/saved-checkpoints/" name, struct fixture, NULL, set_up, \
               func, tear_down)

int main(int argc, char **argv)
{
    char *state = scratch_new();
    int code;

    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_STATE_HOME", state, TRUE);
    ADD("saved", test_saved);
    ADD("others", test_others);
    ADD("damaged", test_damaged);
    ADD("chunks", test_chunks);
    ADD("no-file", test_no_file);
    code = g_test_run();
    scratch_remove(state);
    return code;
}
