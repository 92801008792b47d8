/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder of traces: names that lead outside, folders of guests, and usage
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/folder.h"
#include "scratch.h"

#define UUID1 "11111111-2222-3333-4444-555555555555"
#define UUID2 "aaaaaaaa-2222-3333-4444-555555555555"

static char *scratch, *path;

static void run(const char *command)
{
    g_assert_cmpint(system(command), ==, 0);
}

static struct folder *open_all(void)
{
    GError *error = NULL;
    struct folder *f = folder_open(path, &error);

    g_assert_no_error(error);
    return f;
}

static void write_to(const char *where, const char *text)
{
    int fd = open(where, O_WRONLY | O_CREAT | O_EXCL, 0600);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, strlen(text));
    close(fd);
}

static void test_names(void)
{
    static const char *const good[][2] = {
        { "a", "a.btrail" },
        { "a.btrail", "a.btrail" },
        { "boot/a b.btrail", "boot/a b.btrail" },
        { "ä/1/2/3/4/5/6/ö", "ä/1/2/3/4/5/6/ö.btrail" },
        { "a..b", "a..b.btrail" },
    };
    g_autofree char *long_part = g_strnfill(200, 'x');
    g_autofree char *most = g_strdup_printf("%1$s/%1$s/%1$s/%1$s/%2$.196s",
                                            long_part, long_part);
    static const char *const bad[] = {
        "", "/", "/etc/passwd", "a/", "a//b", "..", "../x", "a/../x", "a/..",
        ".", "./a", "a/./b", ".guest", "a/.hidden", "a\nb", "a\x7f" "b",
        "a\xff", "\xc0\xae\xc0\xae/x", "1/2/3/4/5/6/7/8/9", "a\xc2\x85" "b",
    };
    g_autofree char *longest = g_strnfill(201, 'x');
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(good); i++) {
        GError *error = NULL;
        g_autofree char *name = folder_check_name(good[i][0], &error);

        g_assert_no_error(error);
        g_assert_cmpstr(name, ==, good[i][1]);
    }
    /* What has come out goes in, however long it is. */
    for (i = 0; i < 2; i++) {
        g_autofree char *name = folder_check_name(i ? most : long_part,
                                                  NULL);
        g_autofree char *again = folder_check_name(name, NULL);

        g_assert_nonnull(name);
        g_assert_cmpstr(name, ==, again);
    }
    for (i = 0; i < G_N_ELEMENTS(bad) + 1; i++) {
        g_autoptr(GError) error = NULL;
        const char *name = i < G_N_ELEMENTS(bad) ? bad[i] : longest;

        g_assert_null(folder_check_name(name, &error));
        g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_NAME);
        g_assert_true(g_utf8_validate(error->message, -1, NULL));
    }
}

/* What is written by a path from there is in the folder. */
static void test_place(void)
{
    struct folder *all = open_all();
    struct folder *f = folder_guest(all, "vm", UUID1, 7, NULL);
    g_autofree char *inside = g_build_filename(path, "vm", "x", "y.btrail",
                                               NULL);
    g_autoptr(GError) error = NULL;
    g_autofree char *place = NULL, *found = NULL, *text = NULL;
    int fd, fd2;

    place = folder_place(f, "x/y.btrail", &fd, &error);
    g_assert_no_error(error);
    write_to(place, "here");
    g_assert_true(g_file_get_contents(inside, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "here");
    close(fd);

    /* It is there now. */
    g_assert_null(folder_place(f, "x/y.btrail", &fd, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_NAME);
    g_clear_error(&error);
    found = folder_find(f, "x/y.btrail", &fd2, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_test(found, G_FILE_TEST_IS_REGULAR));
    close(fd2);
    g_assert_null(folder_find(f, "x/z.btrail", &fd2, &error));
    g_clear_error(&error);
    g_assert_null(folder_find(f, "z/z.btrail", &fd2, &error));
    g_clear_error(&error);

    /* What is there has this part, or may get it. */
    g_assert_null(folder_place(f, "x/y.1.btrail", &fd, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_NAME);
    g_clear_error(&error);
    g_free(place);
    place = folder_place(f, "x/z.1.btrail", &fd, &error);
    g_assert_no_error(error);
    close(fd);
    folder_free(f);
    folder_free(all);
}

static void test_one_trace(void)
{
    static const char *const same[][2] = {
        { "a.btrail", "a.btrail" }, { "a.btrail", "a.1.btrail" },
        { "d/a.4294967295.btrail", "d/a.btrail" },
        { "a.1.btrail", "a.1.2.btrail" }, { "a.1.btrail", "a.1.btrail" },
    };
    static const char *const others[][2] = {
        { "a.btrail", "b.btrail" }, { "a.btrail", "b.1.btrail" },
        { "a.btrail", "a.01.btrail" }, { "a.btrail", "a.0.btrail" },
        { "a.btrail", "a.4294967296.btrail" }, { "a.btrail", "a.x1.btrail" },
        { "a.1.btrail", "a.2.btrail" }, { "a.btrail", "a1.btrail" },
        { "a.btrail", "d/a.1.btrail" }, { "d/1.btrail", "d/.btrail" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(same); i++) {
        g_assert_true(folder_is_one_trace(same[i][0], same[i][1]));
        g_assert_true(folder_is_one_trace(same[i][1], same[i][0]));
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        g_assert_false(folder_is_one_trace(others[i][0], others[i][1]));
        g_assert_false(folder_is_one_trace(others[i][1], others[i][0]));
    }
}

static void test_links(void)
{
    struct folder *all = open_all();
    struct folder *f = folder_guest(all, "vm", UUID1, 7, NULL);
    static const char *const names[] = {
        "out/a.btrail", "file.btrail", "dangling.btrail", "in/a.btrail"
    };
    g_autofree char *make = g_strdup_printf(
        "cd %s/vm && mkdir %s/outside real && ln -s %s/outside out && "
        "ln -s real in && ln -s /etc/passwd file.btrail && "
        "ln -s %s/outside/new dangling.btrail", path, scratch, scratch,
        scratch);
    g_autofree char *outside = g_strconcat(scratch, "/outside", NULL);
    unsigned i;

    run(make);
    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GError) error = NULL;
        int fd = -1;

        g_assert_null(folder_place(f, names[i], &fd, &error));
        g_assert_nonnull(error);
        g_clear_error(&error);
        g_assert_null(folder_find(f, names[i], &fd, &error));
        g_assert_nonnull(error);
    }
    g_assert_cmpint(g_rmdir(outside), ==, 0);
    folder_free(f);
    folder_free(all);
}

/* Somebody puts a link where the folder was, between place and open. */
static void test_moved(void)
{
    struct folder *all = open_all();
    struct folder *f = folder_guest(all, "vm", UUID1, 7, NULL);
    g_autofree char *place, *move, *moved, *outside;
    int fd;

    place = folder_place(f, "sub/a.btrail", &fd, NULL);
    g_assert_nonnull(place);
    move = g_strdup_printf("cd %s/vm && mkdir %s/elsewhere && mv sub was && "
                           "ln -s %s/elsewhere sub", path, scratch, scratch);
    run(move);
    write_to(place, "x");
    close(fd);
    moved = g_strconcat(path, "/vm/was/a.btrail", NULL);
    outside = g_strconcat(scratch, "/elsewhere/a.btrail", NULL);
    g_assert_true(g_file_test(moved, G_FILE_TEST_EXISTS));
    g_assert_false(g_file_test(outside, G_FILE_TEST_EXISTS));
    folder_free(f);
    folder_free(all);
}

static void is_folder(struct folder *all, const char *name,
                      const char *uuid, uid_t uid, const char *folder)
{
    GError *error = NULL;
    struct folder *f = folder_guest(all, name, uuid, uid,
                                    &error);

    if (!folder) {
        g_assert_null(f);
        g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_NAME);
        g_error_free(error);
        return;
    }
    g_assert_no_error(error);
    g_assert_true(g_str_has_prefix(f->path, path));
    g_assert_cmpstr(f->path + strlen(path) + 1, ==, folder);
    folder_free(f);
}

static void test_guests(void)
{
    struct folder *all = open_all();
    /* Also if it becomes that because it is too long */
    g_autofree char *fill = g_strnfill(160 - 37, 'x');
    g_autofree char *cut = g_strconcat(fill, "." UUID1 "zzz", NULL);
    g_autofree char *folder_of_cut = g_strconcat(fill, "%2e" UUID1, NULL);
    g_autofree char *make = g_strdup_printf(
        "cd %s && mkdir foreign && touch foreign/x && ln -s /tmp link", path);
    GError *error = NULL;

    is_folder(all, "web", UUID1, 7, "web");
    is_folder(all, "web", UUID1, 7, "web");
    is_folder(all, "web", UUID2, 7, "web." UUID2);
    is_folder(all, "web", UUID2, 7, "web." UUID2);
    is_folder(all, "web", UUID1, 8, "web." UUID1);
    is_folder(all, "web", UUID1, 9, NULL);
    is_folder(all, "web", NULL, 7, NULL);
    is_folder(all, "web", "../../..", 7, NULL);
    /* Nor can a guest be named as this one's folder is. */
    is_folder(all, "db", UUID2, 8, "db");
    is_folder(all, "db." UUID1, UUID2, 8, "db%2e" UUID1);
    is_folder(all, "db." UUID1, UUID2, 8, "db%2e" UUID1);
    is_folder(all, "db", UUID1, 7, "db." UUID1);
    is_folder(all, "." UUID1, UUID2, 8, "%2e" UUID1);
    is_folder(all, cut, UUID2, 8, folder_of_cut);
    is_folder(all, "bare", NULL, 7, "bare");
    is_folder(all, "bare", "00000000-0000-0000-0000-000000000000", 7, "bare");
    is_folder(all, "..", UUID1, 7, "%2e.");
    is_folder(all, "/etc", UUID1, 7, "%2fetc");
    is_folder(all, "", UUID1, 7, "%");
    is_folder(all, "a b%\n", UUID1, 7, "a%20b%25%0a");
    is_folder(all, "\xff", UUID1, 7, "%ff");
    run(make);
    is_folder(all, "foreign", UUID1, 7, "foreign." UUID1);
    is_folder(all, "foreign", NULL, 7, NULL);
    g_assert_null(folder_guest(all, "link", UUID1, 7, &error));
    g_assert_nonnull(error);
    g_error_free(error);
    folder_free(all);
}

/* A process or the host has died before the owner of a folder was written. */
static void test_no_owner(void)
{
    struct folder *all = open_all();
    g_autofree char *make = g_strdup_printf(
        "cd %s && mkdir empty early fifo full && touch empty/.guest "
        "early/.guest.new full/.guest full/x && mkfifo fifo/.guest", path);
    g_autofree char *left = g_build_filename(path, "empty", ".guest", NULL);
    g_autofree char *text = NULL;

    run(make);
    is_folder(all, "empty", NULL, 7, "empty");
    is_folder(all, "early", NULL, 7, "early");
    is_folder(all, "fifo", NULL, 7, "fifo");
    /* From then on they have one. */
    is_folder(all, "empty", NULL, 8, NULL);
    is_folder(all, "early", UUID1, 7, "early." UUID1);
    is_folder(all, "fifo", NULL, 7, "fifo");
    g_assert_true(g_file_get_contents(left, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "-\n7\nempty\n");
    /* What is there may be another guest's. */
    is_folder(all, "full", NULL, 7, NULL);
    folder_free(all);
}

/* Found from the folder of another guest, if both have the same user */
static void test_siblings(void)
{
    static const struct {
        const char *name, *uuid;
        uid_t uid;
        const char *folder;
    } cases[] = {
        { "web", UUID1, 7, "web" },
        { "web", UUID2, 7, "web." UUID2 },
        { "web", UUID2, 8, NULL },
        { "web", NULL, 7, NULL },
        { "other", UUID1, 7, NULL },
        { "../web", UUID1, 7, NULL },
    };
    struct folder *all = open_all();
    unsigned i;

    is_folder(all, "web", UUID1, 7, "web");
    is_folder(all, "web", UUID2, 7, "web." UUID2);
    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct folder *mine = folder_guest(
            all, i % 2 ? "a" : "b", UUID1, cases[i].uid == 8 ? 8 : 7, NULL);
        g_autoptr(GError) error = NULL;
        struct folder *f = folder_sibling(
            mine, cases[i].name, cases[i].uuid, &error);

        if (cases[i].folder) {
            g_autofree char *base = NULL;

            g_assert_no_error(error);
            base = g_path_get_basename(f->path);
            g_assert_cmpstr(base, ==, cases[i].folder);
        } else {
            g_assert_null(f);
            g_assert_error(error, SERVICE_ERROR,
                           SERVICE_ERROR_NAME);
        }
        folder_free(f);
        folder_free(mine);
    }
    folder_free(all);
}

static void test_list(void)
{
    struct folder *all = open_all();
    struct folder *f = folder_guest(all, "vm", UUID1, 7, NULL);
    static const char *const names[] = { "b.btrail", "a.btrail", "d/c.btrail" };
    g_autofree char *make = g_strdup_printf(
        "cd %s/vm && mkdir .ring && head -c 100000 /dev/zero >.ring/r.btrail "
        "&& echo >notes.txt && ln -s /etc d/etc && ln -s /etc/passwd l.btrail",
        path);
    GArray *files;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        int fd;
        g_autofree char *place = folder_place(f, names[i], &fd, NULL);

        write_to(place, "12345");
        close(fd);
    }
    run(make);
    files = folder_list(f);
    g_assert_cmpuint(files->len, ==, 3);
    for (i = 0; i < 3; i++) {
        static const char *const sorted[] = {
            "a.btrail", "b.btrail", "d/c.btrail"
        };
        const struct folder_file *file =
            &g_array_index(files, struct folder_file, i);

        g_assert_cmpstr(file->name, ==, sorted[i]);
        g_assert_cmpuint(file->size, ==, 5);
        g_assert_cmpint(file->changed, >, 0);
    }
    g_array_unref(files);
    /* What is ours counts, too. */
    g_assert_cmpuint(folder_usage(f), >=, 98304);
    g_assert_cmpuint(folder_usage(f), <, 1 << 20);
    g_assert_cmpuint(folder_usage(all), >=, folder_usage(f));
    g_assert_cmpuint(folder_space(f), >, 0);
    folder_free(f);
    folder_free(all);
}

static void test_unused(void)
{
    struct folder *all = open_all();
    struct folder *f = folder_guest(all, "vm", UUID1, 7, NULL);
    g_autofree char *where = g_strdup(f->path);
    g_autofree char *file = g_build_filename(where, "x.btrail", NULL);

    write_to(file, "text");
    folder_remove_unused(f);
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
    /* It still has its owner. */
    folder_free(f);
    f = folder_guest(all, "vm", UUID2, 7, NULL);
    g_assert_cmpstr(f->path, !=, where);
    folder_remove_unused(f);
    g_assert_false(g_file_test(f->path, G_FILE_TEST_EXISTS));
    folder_free(f);
    folder_free(all);
}

static void test_open(void)
{
    g_autofree char *deep = g_strconcat(path, "/1/2/3", NULL);
    g_autofree char *file = g_strconcat(path, "/file", NULL);
    g_autoptr(GError) error = NULL;
    struct folder *f = folder_open(deep, &error);

    g_assert_no_error(error);
    folder_free(f);
    g_assert_cmpint(g_chmod(deep, 0777), ==, 0);
    g_assert_null(folder_open(deep, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_CONFIG);
    g_clear_error(&error);
    write_to(file, "");
    g_assert_null(folder_open(file, &error));
    g_assert_nonnull(error);
}

static void test_owner(void)
{
    struct folder *all = folder_open(path, NULL);
    struct folder *f =
        folder_guest(all, "a/b\nc", UUID1, 7, NULL);
    g_autofree char *name = NULL, *uuid = NULL, *plain = NULL, *none = NULL;
    g_autofree char *other = g_strconcat(path, "/other", NULL);

    folder_owner(f, &name, &uuid);
    g_assert_cmpstr(name, ==, "a/b\nc");
    g_assert_cmpstr(uuid, ==, UUID1);
    folder_free(f);
    g_assert_cmpint(g_mkdir(other, 0700), ==, 0);
    f = folder_existing(all, "other");
    folder_owner(f, &plain, &none);
    g_assert_cmpstr(plain, ==, "other");
    g_assert_cmpstr(none, ==, "-");
    folder_free(f);
    folder_free(all);
}

static void in_scratch(gconstpointer test)
{
    scratch = scratch_new();
    path = g_strconcat(scratch, "/traces", NULL);
    ((void (*)(void))test)();
    g_free(path);
    scratch_remove(scratch);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/folder/names", test_names);
    g_test_add_data_func("/folder/place", test_place, in_scratch);
    g_test_add_func("/folder/one-trace", test_one_trace);
    g_test_add_data_func("/folder/links", test_links, in_scratch);
    g_test_add_data_func("/folder/moved", test_moved, in_scratch);
    g_test_add_data_func("/folder/guests", test_guests, in_scratch);
    g_test_add_data_func("/folder/no-owner", test_no_owner, in_scratch);
    g_test_add_data_func("/folder/siblings", test_siblings, in_scratch);
    g_test_add_data_func("/folder/owner", test_owner, in_scratch);
    g_test_add_data_func("/folder/list", test_list, in_scratch);
    g_test_add_data_func("/folder/unused", test_unused, in_scratch);
    g_test_add_data_func("/folder/open", test_open, in_scratch);
    return g_test_run();
}
