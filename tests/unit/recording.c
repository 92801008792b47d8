/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of recording.c: manifests that are whole, and manifests that are
 * not
 */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/recording.h"
#include "scratch.h"

/* Of nothing, by sha256sum */
#define EMPTY   "e3b0c44298fc1c149afbf4c8996fb924" \
                "27ae41e4649b934ca495991b7852b855"

struct fixture {
    char *folder;
};

static char *path(struct fixture *f, const char *name)
{
    return g_build_filename(f->folder, name, NULL);
}

static void write_file(struct fixture *f, const char *name, const char *bytes,
                       gssize size)
{
    g_autofree char *p = path(f, name);

    g_assert_true(g_file_set_contents(p, bytes, size, NULL));
}

/* A recording with one file and an empty log, and a backslash in a name */
static struct recording *sample(struct fixture *f)
{
    struct recording *r = recording_new(f->folder);
    g_autofree char *files = path(f, "files"), *kernel = NULL, *hash = NULL;
    static const char *const arguments[] = {
        "-append", "a\"b\\c", "-m", "1", NULL
    };
    uint64_t size;

    g_mkdir(files, 0777);
    write_file(f, "files/0-x", "kernel", 6);
    write_file(f, "replay.log", "", 0);
    kernel = path(f, "files/0-x");
    hash = recording_hash(kernel, &size, NULL);
    g_assert_cmpuint(size, ==, 6);
    recording_add_file(r, "files/0-x", "/from/x", size, hash);
    r->complete = true;
    r->created = 12345;
    r->duration_ns = 7;
    r->instructions = UINT64_C(1) << 40;
    r->qemu = g_strdup("/qemu");
    r->qemu_version = g_strdup("10");
    r->qemu_sha256 = g_strdup(EMPTY);
    r->icount = g_strdup("shift=5,sleep=off");
    r->arguments = g_strdupv((char **)arguments);
    r->log.sha256 = g_strdup(EMPTY);
    return r;
}

static void set_up(struct fixture *f, gconstpointer data)
{
    struct recording *r;

    f->folder = scratch_new();
    r = sample(f);
    g_assert_true(recording_save(r, NULL));
    recording_free(r);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
}

static void test_round(struct fixture *f, gconstpointer data)
{
    struct recording *want = sample(f);
    g_autoptr(GError) error = NULL;
    struct recording *r = recording_open(f->folder, &error);
    const struct recorded_file *file;

    g_assert_no_error(error);
    g_assert_true(r->complete);
    g_assert_cmpint(r->created, ==, 12345);
    g_assert_cmpuint(r->duration_ns, ==, 7);
    g_assert_cmpuint(r->instructions, ==, UINT64_C(1) << 40);
    g_assert_cmpstr(r->qemu, ==, "/qemu");
    g_assert_cmpstr(r->icount, ==, "shift=5,sleep=off");
    g_assert_true(g_strv_equal((const char *const *)r->arguments,
                               (const char *const *)want->arguments));
    g_assert_cmpuint(r->files->len, ==, 1);
    file = g_ptr_array_index(r->files, 0);
    g_assert_cmpstr(file->name, ==, "files/0-x");
    g_assert_cmpstr(file->source, ==, "/from/x");
    g_assert_true(recording_check(r, &error));
    g_assert_no_error(error);
    recording_free(want);
    recording_free(r);
}

/* It is not opened, or its files are not as they were. */
static void refused(struct fixture *f, const char *why)
{
    g_autoptr(GError) error = NULL;
    struct recording *r = recording_open(f->folder, &error);

    if (r) {
        g_assert_false(recording_check(r, &error));
        recording_free(r);
    }
    g_assert_nonnull(error);
    if (!strstr(error->message, why)) {
        g_error("%s, not: %s", error->message, why);
    }
}

static void test_files(struct fixture *f, gconstpointer data)
{
    g_autofree char *kernel = path(f, "files/0-x");
    g_autofree char *manifest = path(f, "recording.json");

    write_file(f, "files/0-x", "kernal", 6);
    refused(f, "SHA-256");
    write_file(f, "files/0-x", "kernels", 7);
    refused(f, "7 bytes");
    unlink(kernel);
    refused(f, "copy it again");
    g_assert_cmpint(symlink("/etc/passwd", kernel), ==, 0);
    refused(f, "leads out");
    unlink(kernel);
    g_assert_cmpint(g_mkdir(kernel, 0777), ==, 0);
    refused(f, "not a file");
    g_assert_cmpint(rmdir(kernel), ==, 0);
    write_file(f, "files/0-x", "kernel", 6);
    write_file(f, "replay.log", "x", 1);
    refused(f, "replay.log has 1 bytes");
    unlink(manifest);
    refused(f, "not a recording");
}

static void remove_file(struct fixture *f, const char *name)
{
    g_autofree char *p = path(f, name);

    g_assert_cmpint(unlink(p), ==, 0);
}

static void link_file(struct fixture *f, const char *name, const char *to)
{
    g_autofree char *p = path(f, name);

    g_assert_cmpint(symlink(to, p), ==, 0);
}

/* QEMU finds more by name than what arguments name. */
static void test_others(struct fixture *f, gconstpointer data)
{
    g_autofree char *firmware = path(f, "files/firmware");
    g_autofree char *deep = path(f, "files/1/2/3/4/5/6/7/8/9");
    g_autofree char *files = path(f, "files"), *moved = path(f, "moved");

    write_file(f, "files/1-x", "", 0);
    refused(f, "files/1-x is not in recording.json");
    remove_file(f, "files/1-x");
    link_file(f, "files/1-x", "0-x");
    refused(f, "files/1-x is not a file");
    remove_file(f, "files/1-x");
    link_file(f, "files/firmware", "/etc");
    refused(f, "files/firmware is not a file");
    remove_file(f, "files/firmware");
    g_assert_cmpint(g_mkdir(firmware, 0777), ==, 0);
    write_file(f, "files/firmware/x", "", 0);
    refused(f, "files/firmware/x is not in");
    remove_file(f, "files/firmware/x");
    g_assert_cmpint(g_mkdir_with_parents(deep, 0777), ==, 0);
    refused(f, "is not a folder that");
    g_assert_cmpint(g_rename(files, moved), ==, 0);
    link_file(f, "files", "moved");
    refused(f, "files is not a folder that");
}

/* A recorder that was killed */
static void test_unfinished(struct fixture *f, gconstpointer data)
{
    struct recording *r = sample(f);
    g_autoptr(GError) error = NULL;

    r->complete = false;
    g_assert_true(recording_save(r, NULL));
    recording_free(r);
    refused(f, "cut off");
    write_file(f, "replay.log", "\0\0\0\0events", 10);
    refused(f, "cut off");
    /* QEMU has ended in order. */
    write_file(f, "replay.log", "\0\xe0\x20\x0c" "events", 10);
    r = recording_open(f->folder, &error);
    g_assert_no_error(error);
    g_assert_false(r->complete);
    g_assert_cmpuint(r->log.size, ==, 10);
    g_assert_true(recording_check(r, NULL));
    recording_free(r);
}

/* Replaces a text of the manifest. */
static void test_manifest(struct fixture *f, gconstpointer data)
{
    static const char *const cases[][3] = {
        { "files/0-x", "../0-x", "outside" },
        { "files/0-x", "files/../../x", "outside" },
        { "files/0-x", "files//x", "outside" },
        { "files/0-x", "/etc/passwd", "outside" },
        { "\"size\" : 6", "\"size\" : -6", "without name, size" },
        { "\"size\" : 6", "\"size\" : \"6\"", "without name, size" },
        { "backtrail recording", "other", "not a recording" },
        { "\"version\" : 1", "\"version\" : 4", "version 4" },
        { "\"version\" : 1", "\"version\" : 3", "where it begins" },
        { "shift=5", "rr=record", "icount" },
        { "shift=5", "shift=5,rrfile=/x", "icount" },
        { "\"arguments\"", "\"other\"", "no arguments" },
        { "\"1\"", "1", "no text" },
        { "\"log\"", "\"other\"", "no size or hash" },
        { "\"qemu\"", "\"other\"", "QEMU" },
        { EMPTY, "12", "" },
        { "{", "[", "not JSON" },
    };
    g_autofree char *p = path(f, "recording.json"), *text = NULL;

    g_assert_true(g_file_get_contents(p, &text, NULL, NULL));
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *at = strstr(text, cases[i][0]);
        g_autofree char *other = NULL;

        g_assert_nonnull(at);
        other = g_strdup_printf("%.*s%s%s", (int)(at - text), text,
                                cases[i][1], at + strlen(cases[i][0]));
        write_file(f, "recording.json", other, -1);
        refused(f, cases[i][2]);
    }
}

/* Saves a manifest with another text after a member's name. */
static void change(struct fixture *f, const struct recording *r,
                   const char *member, const char *from, const char *to)
{
    g_autofree char *p = path(f, "recording.json"), *text = NULL;
    g_autofree char *other = NULL;
    char *at;

    g_assert_true(recording_save(r, NULL));
    g_assert_true(g_file_get_contents(p, &text, NULL, NULL));
    at = strstr(text, member);
    g_assert_nonnull(at);
    at = strstr(at, from);
    g_assert_nonnull(at);
    other = g_strdup_printf("%.*s%s%s", (int)(at - text), text, to,
                            at + strlen(from));
    write_file(f, "recording.json", other, -1);
}

/* Only its last part was kept. */
static void test_ring(struct fixture *f, gconstpointer data)
{
    struct recording *want = sample(f), *r;
    struct recorded_file *disk = g_ptr_array_index(want->files, 0);
    g_autofree char *ring = path(f, "ring");
    g_autoptr(GError) error = NULL;

    g_mkdir(ring, 0777);
    write_file(f, "ring/base.3", "", 0);
    write_file(f, "ring/overlay.0.3", "", 0);
    recording_add_file(want, "ring/base.3", NULL, 0, EMPTY);
    recording_add_file(want, "ring/overlay.0.3", NULL, 0, EMPTY);
    disk->overlay = g_strdup("ring/overlay.0.3");
    want->base = g_strdup("ring/base.3");
    want->begin = (struct log_start) { 77, UINT64_C(1) << 40, 3 };

    g_assert_true(recording_save(want, NULL));
    r = recording_open(f->folder, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(r->base, ==, "ring/base.3");
    g_assert_cmpuint(r->begin.offset, ==, 77);
    g_assert_cmpuint(r->begin.icount, ==, UINT64_C(1) << 40);
    g_assert_cmpuint(r->begin.vcpu, ==, 3);
    disk = g_ptr_array_index(r->files, 0);
    g_assert_cmpstr(disk->overlay, ==, "ring/overlay.0.3");
    g_assert_true(recording_check(r, &error));
    g_assert_no_error(error);
    recording_free(r);

    change(f, want, "\"overlay\"", "\"ring/overlay.0.3\"", "\"ring/../x\"");
    refused(f, "not in ring/");
    change(f, want, "\"overlay\"", "\"ring/overlay.0.3\"", "\"ring/other\"");
    refused(f, "none of its files");
    change(f, want, "\"begin\"", "\"ring/base.3\"", "\"files/0-x\"");
    refused(f, "does not say where it begins");
    recording_free(want);
}

static void test_hash(struct fixture *f, gconstpointer data)
{
    g_autofree char *p = path(f, "replay.log"), *hash = NULL;
    g_autoptr(GError) error = NULL;

    hash = recording_hash(p, NULL, NULL);
    g_assert_cmpstr(hash, ==, EMPTY);
    g_assert_null(recording_hash("/nowhere/x", NULL, &error));
    g_assert_nonnull(error);
}

/* A base belongs to the version of which it is, and to no other. */
static void test_base(struct fixture *f, gconstpointer data)
{
    struct recording *r = sample(f);
    g_autoptr(GError) error = NULL;
    g_autofree char *manifest = NULL, *text = NULL;

    write_file(f, "files/base", "", 0);
    r->base = g_strdup(RECORDING_BASE);
    g_assert_true(recording_save(r, NULL));
    refused(f, "it has no base");
    recording_add_file(r, "files/base", NULL, 0, EMPTY);
    g_assert_true(recording_save(r, NULL));
    recording_free(r);
    r = recording_open(f->folder, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(r->base, ==, RECORDING_BASE);
    g_assert_true(recording_check(r, &error));
    g_assert_no_error(error);
    /* Whoever knows no bases must not switch the guest on. */
    manifest = path(f, "recording.json");
    g_assert_true(g_file_get_contents(manifest, &text, NULL, NULL));
    g_assert_nonnull(strstr(text, "\"version\" : 2"));
    write_file(f, "files/base", "x", 1);
    refused(f, "files/base has 1 bytes");
    g_clear_pointer(&r->base, g_free);
    g_assert_true(recording_save(r, NULL));
    refused(f, "it has a base");
    recording_free(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/recording/round", struct fixture, NULL, set_up, test_round,
               tear_down);
    g_test_add("/recording/files", struct fixture, NULL, set_up, test_files,
               tear_down);
    g_test_add("/recording/others", struct fixture, NULL, set_up, test_others,
               tear_down);
    g_test_add("/recording/unfinished", struct fixture, NULL, set_up,
               test_unfinished, tear_down);
    g_test_add("/recording/manifest", struct fixture, NULL, set_up,
               test_manifest, tear_down);
    g_test_add("/recording/base", struct fixture, NULL, set_up, test_base,
               tear_down);
    g_test_add("/recording/ring", struct fixture, NULL, set_up, test_ring,
               tear_down);
    g_test_add("/recording/hash", struct fixture, NULL, set_up, test_hash,
               tear_down);
    return g_test_run();
}
