/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replay-arguments.c: what a recording may have QEMU run with, and what
 * a replay makes of that.  That machine_new() makes nothing else is tested with
 * machine.c.
 */

#include <glib/gstdio.h>
#include <string.h>

#include "replay/replay-arguments.h"
#include "scratch.h"

struct fixture {
    char *folder, *before;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->before = g_get_current_dir();
    g_assert_cmpint(g_chdir(f->folder), ==, 0);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    g_assert_cmpint(g_chdir(f->before), ==, 0);
    scratch_remove(f->folder);
    g_free(f->before);
}

/* What a recording of somebody else must not have */
static void test_hostile(struct fixture *f, gconstpointer data)
{
    static const char *const cases[] = {
        "-plugin evil.so", "-chardev file,id=c,path=x", "-serial file:x",
        "-serial /dev/tty", "-netdev user,id=n", "-netdev tap,id=n",
        "-netdev user,id=n,restrict=on,hostfwd=tcp::1-:1",
        "-nic user,restrict=on,smb=x", "-nic tap",
        "-drive file=/etc/passwd,format=raw,snapshot=on",
        "-drive file=recording/files/../../x,format=raw,snapshot=on",
        "-drive file=recording/files/x,snapshot=on",
        "-drive file=recording/files/x,format=raw",
        "-drive file=json:{},format=raw,snapshot=on",
        "-drive file=recording/files/x,format=raw,snapshot=on/x",
        "-drive file=recording/files/x,format=raw,snapshot=off",
        "-drive file=recording/files/x,format=raw,snapshot=on,snapshot=off",
        "-drive file=recording/files/x,format=raw,readonly=no",
        "-drive file=/x,file=recording/files/x,format=raw,snapshot=on",
        "-drive driver=nbd,host=h", "-kernel /etc/passwd",
        "-kernel recording/files/../x", "-bios /x", "-L /tmp",
        "-device vfio-pci,host=1", "-device loader,file=/etc/passwd",
        "-device e1000,romfile=/x", "-device {}", "-object rng-egd,id=x",
        "-object memory-backend-file,id=x,mem-path=/x",
        "-machine pc,accel=kvm", "-machine pc,dumpdtb=x", "-accel kvm",
        "-smp 64", "-display gtk", "-monitor stdio", "-qmp stdio", "-S",
        "-daemonize", "-smbios file=/x", "-kernel", "recording/files/x",
        "--version", "-global x.y=/z", "-chardev null,id=c,logfile=x",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_auto(GStrv) words = g_strsplit(cases[i], " ", 2);
        g_autoptr(GError) error = NULL;

        if (replay_arguments_check(words, &error)) {
            g_error("%s is taken", cases[i]);
        }
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_PROTOCOL);
    }
}

/* An image with a backing file */
static void test_hostile_image(struct fixture *f, gconstpointer data)
{
    static const char head[104] = "QFI\xfb\0\0\0\3\0\0\0\0\0\0\0\x70";
    struct recording *r = recording_new(f->folder);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) arguments = NULL;

    g_assert_cmpint(g_mkdir("files", 0777), ==, 0);
    g_assert_true(g_file_set_contents("files/x", head, sizeof(head), NULL));
    r->arguments = g_strsplit("-serial null -drive file=recording/files/x,"
                              "format=qcow2,snapshot=on", " ", -1);
    g_assert_null(replay_arguments_new(r, NULL, &error));
    g_assert_nonnull(strstr(error->message, "backing file"));

    g_assert_true(g_file_set_contents("files/x", "QFI\xfb\0\0\0\3", 8, NULL));
    arguments = replay_arguments_new(r, "file:out", NULL);
    g_assert_cmpstr(arguments[1], ==, "file:out");
    recording_free(r);
}

/* What a guest had written to an image when the recording begins */
static void test_overlay(struct fixture *f, gconstpointer data)
{
    static const char head[104] = "QFI\xfb\0\0\0\3\0\0\0\0\0\0\0\x70";
    static const char elsewhere[80] = {
        'Q', 'F', 'I', '\xfb', [7] = 3, [79] = 4
    };
    struct recording *r = recording_new(f->folder);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) arguments = NULL;
    struct recorded_file *image;

    g_assert_cmpint(g_mkdir("files", 0777), ==, 0);
    g_assert_cmpint(g_mkdir("ring", 0777), ==, 0);
    g_assert_true(g_file_set_contents("files/x", "", 0, NULL));
    recording_add_file(r, "files/y", NULL, 0, NULL);
    recording_add_file(r, "files/x", NULL, 0, NULL);
    image = recording_find_file(r, "files/x");
    image->overlay = g_strdup("ring/o");
    r->arguments = g_strsplit("-drive file=recording/files/x,format=raw,"
                              "if=none,id=a,snapshot=on", " ", -1);

    g_assert_true(g_file_set_contents("ring/o", elsewhere, sizeof(elsewhere),
                                      NULL));
    g_assert_null(replay_arguments_new(r, NULL, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);

    /* The file that it names is not used. */
    g_assert_true(g_file_set_contents("ring/o", head, sizeof(head), NULL));
    arguments = replay_arguments_new(r, NULL, NULL);
    g_assert_nonnull(arguments);
    g_assert_cmpstr(arguments[1], ==,
                    "if=none,id=a,snapshot=on,driver=qcow2,file.driver=file,"
                    "file.filename=recording/ring/o,backing.driver=raw,"
                    "backing.file.driver=file,"
                    "backing.file.filename=recording/files/x");
    recording_free(r);
}

/* A character device of the user's own, with a name that QEMU gives, too */
static void test_named_port(struct fixture *f, gconstpointer data)
{
    struct recording *r = recording_new(f->folder);
    g_auto(GStrv) file = NULL, terminal = NULL;

    r->arguments = g_strsplit("-chardev null,id=other -chardev "
                              "null,id=serial0,mux=on -serial chardev:serial0",
                              " ", -1);
    file = replay_arguments_new(r, "file:a,b", NULL);
    g_assert_cmpstr(file[1], ==, "null,id=other");
    g_assert_cmpstr(file[3], ==,
                    "id=serial0,mux=on,backend=file,path=a,,b");
    g_assert_cmpstr(file[5], ==, "chardev:serial0");
    terminal = replay_arguments_new(r, "stdio", NULL);
    g_assert_cmpstr(terminal[3], ==,
                    "id=serial0,mux=on,backend=stdio");
    recording_free(r);
}

/*
 * What looks like a port is a value for QEMU.  If it were changed like a port,
 * the next option would be gone, and its value the path of a disk.
 */
static void test_hidden_port(struct fixture *f, gconstpointer data)
{
    struct recording *r = recording_new(f->folder);
    g_auto(GStrv) arguments = NULL;

    r->arguments = g_strsplit("-append -serial -name /x -serial null", " ",
                              -1);
    arguments = replay_arguments_new(r, "stdio", NULL);
    g_assert_cmpstr(arguments[2], ==, "-name");
    g_assert_cmpstr(arguments[5], ==, "stdio");
    recording_free(r);
}

/* Ports of which the log has when something is written, and no others */
static void test_connect(struct fixture *f, gconstpointer data)
{
    static const int sockets[] = { 11, 12, 13, 14, 15 };
    char **arguments = g_strsplit(
        "-chardev null,id=a,mux=on -chardev null,id=b -debugcon null "
        "-serial null -append -serial -serial none -serial chardev:a "
        "-serial chardev:a -parallel null -device isa-debugcon,chardev=b", " ",
        -1);
    g_autofree char *text = NULL;

    g_assert_cmpuint(replay_arguments_ports(arguments, true), ==, 3);
    g_assert_cmpuint(replay_arguments_ports(arguments, false), ==, 2);
    replay_arguments_connect(&arguments, sockets);
    text = g_strjoinv(" ", arguments);
    g_assert_cmpstr(text, ==, "-chardev socket,id=backtrail-11,fd=11 "
                    "-chardev socket,id=debugcon,fd=14 "
                    "-chardev socket,id=backtrail-15,fd=15 "
                    "-chardev id=a,mux=on,backend=socket,fd=12 "
                    "-chardev null,id=b -debugcon chardev:debugcon "
                    "-serial chardev:backtrail-11 -append -serial "
                    "-serial none -serial chardev:a -serial chardev:a "
                    "-parallel chardev:backtrail-15 "
                    "-device isa-debugcon,chardev=b");
    g_strfreev(arguments);
}

/* What looks like an option at the end has nothing after it. */
static void test_cut_off(struct fixture *f, gconstpointer data)
{
    static const char *const cases[] = {
        "-serial chardev:c -append -chardev", "-append -drive",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct recording *r = recording_new(f->folder);
        g_auto(GStrv) arguments = NULL;

        r->arguments = g_strsplit(cases[i], " ", -1);
        arguments = replay_arguments_new(r, "stdio", NULL);
        g_assert_nonnull(arguments);
        recording_free(r);
    }
}

static void test_trace(struct fixture *f, gconstpointer data)
{
    g_auto(GStrv) with = g_strsplit("-nodefaults -device branch-trace", " ",
                                    -1);
    g_auto(GStrv) without = g_strsplit("-device e1000 -append branch-trace "
                                       "-device", " ", -1);

    g_assert_true(replay_arguments_trace(with));
    g_assert_false(replay_arguments_trace(without));
    g_assert_false(replay_arguments_trace(with + 3));
}

/* Without a port, and with one that leads nowhere, nothing is connected. */
static void test_no_port(struct fixture *f, gconstpointer data)
{
    struct recording *r = recording_new(f->folder);
    g_auto(GStrv) some = NULL, none = NULL;

    r->arguments = g_strsplit("-serial none -m 1", " ", -1);
    none = replay_arguments_new(r, "stdio", NULL);
    g_assert_cmpstrv(none, r->arguments);
    g_strfreev(r->arguments);
    /* The port is the first one that is there. */
    r->arguments = g_strsplit("-serial none -serial null -serial null", " ",
                              -1);
    some = replay_arguments_new(r, "stdio", NULL);
    g_assert_cmpstr(some[3], ==, "stdio");
    g_assert_cmpstr(some[5], ==, "null");
    recording_free(r);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(struct fixture *f, gconstpointer data);
    } tests[] = {
        { "/replay-arguments/hostile", test_hostile },
        { "/replay-arguments/hostile-image", test_hostile_image },
        { "/replay-arguments/overlay", test_overlay },
        { "/replay-arguments/named-port", test_named_port },
        { "/replay-arguments/hidden-port", test_hidden_port },
        { "/replay-arguments/connect", test_connect },
        { "/replay-arguments/cut-off", test_cut_off },
        { "/replay-arguments/trace", test_trace },
        { "/replay-arguments/no-port", test_no_port },
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].test,
                   tear_down);
    }
    return g_test_run();
}
