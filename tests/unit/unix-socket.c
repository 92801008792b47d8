/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test connections to unix sockets
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/agent-error.h"
#include "util/unix-socket.h"

static void check_refused(const char *path, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(unix_connect(path, &error), ==, -1);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_true(g_str_has_prefix(error->message, path));
    g_assert_nonnull(strstr(error->message, why));
}

static void test_connect(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "socket", NULL);
    g_autofree char *wide = g_strnfill(sizeof(((struct sockaddr_un *)
                                               NULL)->sun_path), 'x');
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), ours, theirs;
    char byte = 'a';

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    check_refused(path, "No such file");
    check_refused(wide, "too long for a socket");
    g_assert_cmpint(bind(listener, (struct sockaddr *)&address,
                         sizeof(address)), ==, 0);
    check_refused(path, "refused");
    g_assert_cmpint(listen(listener, 1), ==, 0);
    ours = unix_connect(path, NULL);
    g_assert_cmpint(ours, >=, 0);
    theirs = accept(listener, NULL, NULL);
    g_assert_cmpint(write(ours, &byte, 1), ==, 1);
    byte = 0;
    g_assert_cmpint(read(theirs, &byte, 1), ==, 1);
    g_assert_cmpint(byte, ==, 'a');
    /* Of another type, which the kernel refuses */
    g_assert_cmpint(unix_try(path, SOCK_DGRAM), ==, -1);
    g_assert_cmpint(errno, ==, EPROTOTYPE);
    close(ours);
    close(theirs);
    close(listener);
    g_unlink(path);
    g_rmdir(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/unix-socket/connect", test_connect);
    return g_test_run();
}
