/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording of which only the last part is kept: what is saved, with what the
 * recording begins, and what is removed.  The clock and QEMU are the test's.
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/ring.h"
#include "scratch.h"
#include "util/clock.h"
#include "util/json.h"
#include "util/whole-io.h"

#define SECOND  UINT64_C(1000000000)
#define KEEP    (10 * SECOND)
#define LOG     (1u << 20)

/* Of nothing, by sha256sum */
#define EMPTY   "e3b0c44298fc1c149afbf4c8996fb924" \
                "27ae41e4649b934ca495991b7852b855"

/**
 * struct emulator - one without a process
 * @log:     the commands that change something
 * @fd:      of a state, while one is saved
 * @settles: how often the guest was stopped
 * @status:  of a guest that cannot be stopped; NULL if it can
 * @fails:   a command that does
 * @runs:    the guest, so that its disk changes
 */
struct emulator {
    char *folder;
    struct qmp *qmp;
    GString *log;
    int fd;
    unsigned settles;
    const char *status;
    const char *fails;
    bool runs;
};

/*
 * In place of those of the libraries, of which the linker then takes nothing
 */

static uint64_t now;

uint64_t clock_ns(void)
{
    return now;
}

uint64_t clock_cpu_ns(void)
{
    return 0;
}

uint64_t clock_process_ns(pid_t pid)
{
    return 0;
}

struct qmp *emulator_qmp(struct emulator *e)
{
    return e->qmp;
}

static void put(const char *folder, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* What the guest has written to its disk by now */
static void write_disk(struct emulator *e)
{
    g_autofree char *text = g_strdup_printf("disk at %u%s", e->settles,
                                            e->runs ? ", and later" : "");

    put(e->folder, "ring/disk.0", text);
}

/* Where it was stopped the n-th time */
static JsonObject *place(unsigned n)
{
    return btrail_json_new("u:offset", 300000 * n, "u:icount", 1000 * n,
                           "u:cpu-index", n, NULL);
}

static JsonObject *answer(struct emulator *e, const char *command,
                          JsonObject *arguments, int fd)
{
    if (!strcmp(command, "replay-settle")) {
        e->runs = false;
        e->settles++;
        write_disk(e);
        return place(e->settles);
    }
    if (!strcmp(command, "query-status")) {
        return btrail_json_new("s:status", e->status ?: "postmigrate", NULL);
    }
    if (!strcmp(command, "add-fd")) {
        e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return btrail_json_new("u:fdset-id", 1, NULL);
    }
    if (!strcmp(command, "migrate")) {
        g_autofree char *text = g_strdup_printf("state %u", e->settles);

        g_assert_cmpint(whole_write(e->fd, text, strlen(text)), ==, 0);
        close(e->fd);
        e->fd = -1;
    } else if (!strcmp(command, "query-migrate")) {
        return btrail_json_new("s:status", "completed", NULL);
    } else if (!strcmp(command, "query-migrate-parameters")) {
        return btrail_json_new("u:max-bandwidth", 1000, NULL);
    } else if (!strcmp(command, "cont")) {
        e->runs = true;
        write_disk(e);
        g_string_append(e->log, "cont ");
    } else if (!strcmp(command, "blockdev-snapshot-sync")) {
        g_string_append_printf(e->log, "%s:%s:%s ",
                               btrail_json_string(arguments, "device"),
                               btrail_json_string(arguments, "snapshot-file"),
                               btrail_json_string(arguments, "format"));
    }
    return json_object_new();
}

static JsonNode *execute(void *opaque, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    struct emulator *e = opaque;
    JsonNode *node = NULL;

    if (!g_strcmp0(e->fails, command)) {
        if (e->fd >= 0) {
            close(e->fd);
            e->fd = -1;
        }
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND, "not today");
    } else {
        node = json_node_alloc();
        json_node_init_object(node, NULL);
        json_node_take_object(node, answer(e, command, arguments, fd));
    }
    if (arguments) {
        json_object_unref(arguments);
    }
    return node;
}

JsonNode *emulator_execute(struct emulator *e, const char *command,
                           JsonObject *arguments, int fd, int timeout_ms,
                           GError **error)
{
    return execute(e, command, arguments, fd, error);
}

bool emulator_command(struct emulator *e, const char *command,
                      JsonObject *arguments, GError **error)
{
    g_autoptr(JsonNode) node = execute(e, command, arguments, -1, error);

    return node;
}

/* A guest with one disk whose writes can be kept */
struct fixture {
    char *folder;
    struct recording *recording;
    struct emulator emulator;
    struct ring *ring;
};

static void add_file(struct fixture *f, const char *name)
{
    g_autofree char *path = g_build_filename(f->folder, name, NULL);
    g_autofree char *hash = NULL;
    uint64_t size;

    put(f->folder, name, name);
    hash = recording_hash(path, &size, NULL);
    recording_add_file(f->recording, name, NULL, size, hash);
}

static void make_folder(struct fixture *f, const char *name)
{
    g_autofree char *path = g_build_filename(f->folder, name, NULL);

    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    static const char *const arguments[] = {
        "-drive", "if=pflash,format=raw,file=recording/files/flash,id=flash",
        "-drive", "if=none,id=cd,media=cdrom",
        "-drive", "if=none,id=root,format=qcow2,file=recording/files/disk",
        "-drive", "if=none,id=other,format=raw,file=/elsewhere/disk",
        "-m", "1", NULL
    };
    g_autofree char *log = g_strnfill(LOG, 'x');
    struct recording *r;

    now = 1000 * SECOND;
    f->folder = scratch_new();
    make_folder(f, "files");
    r = f->recording = recording_new(f->folder);
    r->created = 12345;
    r->qemu = g_strdup("/qemu");
    r->qemu_version = g_strdup("10");
    r->qemu_sha256 = g_strdup(EMPTY);
    r->icount = g_strdup("shift=5,sleep=off");
    r->arguments = g_strdupv((char **)arguments);
    r->base = g_strdup(RECORDING_BASE);
    add_file(f, "files/disk");
    add_file(f, "files/flash");
    add_file(f, RECORDING_BASE);
    put(f->folder, RECORDING_LOG, log);
    f->emulator = (struct emulator) {
        .folder = f->folder, .log = g_string_new(NULL), .fd = -1, .runs = true,
    };
    f->emulator.qmp = qmp_through(execute, &f->emulator);
    f->ring = ring_new(r, &f->emulator, KEEP);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    ring_free(f->ring);
    qmp_free(f->emulator.qmp);
    g_string_free(f->emulator.log, TRUE);
    recording_free(f->recording);
    scratch_remove(f->folder);
}

static void begin(struct fixture *f)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(ring_prepare(f->ring, &error));
    g_assert_no_error(error);
    write_disk(&f->emulator);
    g_string_truncate(f->emulator.log, 0);
    ring_begin(f->ring);
}

/* Seconds after the begin */
static void turn(struct fixture *f, unsigned seconds)
{
    g_autoptr(GError) error = NULL;

    now = (1000 + seconds) * SECOND;
    g_assert_true(ring_turn(f->ring, &error));
    g_assert_no_error(error);
    g_assert_true(f->emulator.runs);
}

static void turn_fails(struct fixture *f)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(ring_turn(f->ring, &error));
    g_assert_nonnull(error);
    g_assert_false(f->emulator.runs);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted, with a space after each; to be freed */
static char *names_in(struct fixture *f, const char *name)
{
    g_autofree char *path = g_build_filename(f->folder, name, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    GString *text = g_string_new(NULL);
    const char *entry;

    while ((entry = g_dir_read_name(dir))) {
        g_ptr_array_add(names, g_strdup(entry));
    }
    g_ptr_array_sort(names, compare);
    for (unsigned i = 0; i < names->len; i++) {
        g_string_append_printf(text, "%s ", (char *)names->pdata[i]);
    }
    return g_string_free(text, FALSE);
}

static void check_names(struct fixture *f, const char *name, const char *want)
{
    g_autofree char *got = names_in(f, name);

    g_assert_cmpstr(got, ==, want);
}

static void check_content(struct fixture *f, const char *name,
                          const char *want)
{
    g_autofree char *path = g_build_filename(f->folder, name, NULL);
    g_autofree char *got = NULL;

    g_assert_true(g_file_get_contents(path, &got, NULL, NULL));
    g_assert_cmpstr(got, ==, want);
}

/*
 * The recording on disk begins where the guest was stopped the n-th time, with
 * what it had then: each file has the hash that the manifest says.
 */
static void check_begin(struct fixture *f, unsigned n)
{
    g_autofree char *base = g_strdup_printf("ring/base.%u", n - 1);
    g_autofree char *overlay = g_strdup_printf("ring/overlay.0.%u", n - 1);
    g_autofree char *state = g_strdup_printf("state %u", n);
    g_autofree char *disk = g_strdup_printf("disk at %u", n);
    g_autoptr(GError) error = NULL;
    g_autofree char *path = g_build_filename(f->folder, RECORDING_MANIFEST,
                                             NULL);
    g_autofree char *text = NULL;
    struct recording *r;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    r = recording_parse(f->folder, text, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(r->base, ==, base);
    g_assert_cmpuint(r->begin.offset, ==, 300000 * n);
    g_assert_cmpuint(r->begin.icount, ==, 1000 * n);
    g_assert_cmpuint(r->begin.vcpu, ==, n);
    g_assert_cmpuint(r->files->len, ==, 4);
    g_assert_nonnull(recording_find_file(r, base));
    g_assert_nonnull(recording_find_file(r, overlay));
    g_assert_cmpstr(recording_find_file(r, "files/disk")->overlay, ==,
                    overlay);
    g_assert_null(recording_find_file(r, "files/flash")->overlay);
    for (unsigned i = 0; i < r->files->len; i++) {
        const struct recorded_file *file = g_ptr_array_index(r->files, i);
        g_autofree char *of = recording_path(r, file->name);
        uint64_t size;
        g_autofree char *hash = recording_hash(of, &size, NULL);

        g_assert_cmpstr(hash, ==, file->sha256);
        g_assert_cmpuint(size, ==, file->size);
    }
    recording_free(r);
    check_content(f, base, state);
    /* What it has written since then is not in there. */
    check_content(f, overlay, disk);
}

/* Only what a drive of a device has in the folder can be kept. */
static void test_prepare(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->folder, "ring", NULL);
    g_autoptr(GError) error = NULL;
    GStatBuf st;

    g_assert_true(ring_prepare(f->ring, &error));
    g_assert_no_error(error);
    g_assert_cmpstr(f->emulator.log->str, ==,
                    "root:recording/ring/disk.0:qcow2 ");
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0700);
    /* Somebody has made the folder. */
    g_assert_false(ring_prepare(f->ring, &error));
    g_assert_nonnull(error);
}

static void test_not_prepared(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    f->emulator.fails = "blockdev-snapshot-sync";
    g_assert_false(ring_prepare(f->ring, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
}

static void test_wait(struct fixture *f, gconstpointer data)
{
    struct ring *forever = ring_new(f->recording, &f->emulator,
                                    UINT64_MAX / 2);

    begin(f);
    g_assert_cmpint(ring_wait_ms(f->ring), >=, 10000);
    g_assert_cmpint(ring_wait_ms(f->ring), <=, 10001);
    now += KEEP - 1;
    g_assert_cmpint(ring_wait_ms(f->ring), ==, 1);
    now++;
    g_assert_cmpint(ring_wait_ms(f->ring), ==, 0);
    now += KEEP;
    g_assert_cmpint(ring_wait_ms(f->ring), ==, 0);
    turn(f, 20);
    g_assert_cmpint(ring_wait_ms(f->ring), >=, 10000);
    ring_begin(forever);
    g_assert_cmpint(ring_wait_ms(forever), ==, INT_MAX);
    ring_free(forever);
}

/* The recording begins with the last part that is old enough. */
static void test_turns(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->folder, RECORDING_MANIFEST,
                                             NULL);
    GStatBuf before, after;

    begin(f);
    turn(f, 10);
    /* There is not enough after it. */
    g_assert_cmpstr(f->recording->base, ==, RECORDING_BASE);
    check_names(f, "files", "base disk flash ");
    check_names(f, "ring", "base.0 disk.0 overlay.0.0 ");
    g_assert_cmpstr(f->emulator.log->str, ==, "cont ");
    turn(f, 20);
    check_begin(f, 1);
    /* What it has begun with is not needed any more. */
    check_names(f, "files", "disk flash ");
    check_names(f, "ring", "base.0 base.1 disk.0 overlay.0.0 overlay.0.1 ");
    g_assert_cmpint(g_stat(path, &before), ==, 0);
    turn(f, 29);
    check_begin(f, 1);
    /* Nothing has changed that it would have to say. */
    g_assert_cmpint(g_stat(path, &after), ==, 0);
    g_assert_cmpuint(before.st_ino, ==, after.st_ino);
    /* Two have got old enough. */
    turn(f, 45);
    check_begin(f, 3);
    check_names(f, "ring", "base.2 base.3 disk.0 overlay.0.2 overlay.0.3 ");
    turn(f, 54);
    check_begin(f, 3);
    turn(f, 55);
    check_begin(f, 4);
    check_names(f, "ring", "base.3 base.4 base.5 disk.0 overlay.0.3 "
                "overlay.0.4 overlay.0.5 ");
    /* In the end, others go, too. */
    ring_end(f->ring);
    check_begin(f, 4);
    check_names(f, "ring", "base.3 overlay.0.3 ");
    check_names(f, "files", "disk flash ");
}

/* It has ended before any part was old enough. */
static void test_short(struct fixture *f, gconstpointer data)
{
    begin(f);
    turn(f, 10);
    ring_end(f->ring);
    check_names(f, "ring", "");
    check_names(f, "files", "base disk flash ");
    g_assert_cmpstr(f->recording->base, ==, RECORDING_BASE);
}

/* Can this file system give back a part of a file? */
static bool can_punch(struct fixture *f)
{
    g_autofree char *path = g_build_filename(f->folder, "punched", NULL);
    int fd;
    bool can;

    put(f->folder, "punched", "x");
    fd = open(path, O_WRONLY | O_CLOEXEC);
    g_assert_cmpint(fd, >=, 0);
    can = !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
    close(fd);
    return can;
}

/* Of the log, what is before the begin is gone, but its first 64 KiB. */
static void test_log(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->folder, RECORDING_LOG, NULL);
    g_autofree char *got = NULL;
    unsigned hole = 300000 / 4096 * 4096;
    bool can = can_punch(f);
    gsize size;

    begin(f);
    turn(f, 10);
    turn(f, 20);
    g_assert_true(g_file_get_contents(path, &got, &size, NULL));
    g_assert_cmpuint(size, ==, LOG);
    for (unsigned i = 0; i < LOG; i++) {
        bool gone = can && i >= 64 << 10 && i < hole;

        g_assert_cmpint(got[i], ==, gone ? 0 : 'x');
    }
}

/* A guest that sleeps, or that somebody has stopped, is left alone. */
static void test_at_rest(struct fixture *f, gconstpointer data)
{
    static const char *const rests[] = { "suspended", "paused" };

    begin(f);
    f->emulator.fails = "replay-settle";
    for (unsigned i = 0; i < G_N_ELEMENTS(rests); i++) {
        f->emulator.status = rests[i];
        turn(f, 10 + i);
        check_names(f, "ring", "disk.0 ");
        /* It is looked at again soon. */
        g_assert_cmpint(ring_wait_ms(f->ring), >, 0);
        g_assert_cmpint(ring_wait_ms(f->ring), <, 5000);
    }
    f->emulator.fails = NULL;
    turn(f, 12);
    f->emulator.fails = "replay-settle";
    f->emulator.status = "running";
    f->emulator.runs = false;
    turn_fails(f);
}

/* What cannot be saved leaves nothing, and the recording is as it was. */
static void test_not_saved(struct fixture *f, gconstpointer data)
{
    static const char *const commands[] = { "add-fd", "migrate", "cont" };

    begin(f);
    turn(f, 10);
    turn(f, 20);
    /* As the guest is once it was stopped for this */
    f->emulator.status = "paused";
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        f->emulator.fails = commands[i];
        now += KEEP;
        turn_fails(f);
        check_begin(f, 1);
        check_names(f, "ring", "base.0 base.1 disk.0 overlay.0.0 "
                    "overlay.0.1 ");
    }
    g_assert_cmpstr(f->emulator.log->str, ==, "cont cont ");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test) \
    g_test_add("/ring/" name, struct fixture, NULL, set_up, test, tear_down)
    ADD("prepare", test_prepare);
    ADD("prepare/not", test_not_prepared);
    ADD("wait", test_wait);
    ADD("turns", test_turns);
    ADD("short", test_short);
    ADD("log", test_log);
    ADD("at-rest", test_at_rest);
    ADD("not-saved", test_not_saved);
#undef ADD
    return g_test_run();
}
