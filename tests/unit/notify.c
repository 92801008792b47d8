/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notifications to systemd, through both kinds of socket addresses
 */

#include <glib/gstdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/notify.h"

static int listen_at(const char *name, size_t n)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, name, n);
    g_assert_cmpint(bind(sock, (struct sockaddr *)&address,
                         offsetof(struct sockaddr_un, sun_path) + n), ==, 0);
    return sock;
}

static void expect(int sock, const char *text)
{
    char got[100] = "";

    g_assert_cmpint(recv(sock, got, sizeof(got) - 1, MSG_DONTWAIT), ==,
                    strlen(text));
    g_assert_cmpstr(got, ==, text);
    close(sock);
}

static void test_path(void)
{
    g_autofree char *folder = g_dir_make_tmp("notify-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "socket", NULL);
    int sock = listen_at(path, strlen(path));

    g_setenv("NOTIFY_SOCKET", path, TRUE);
    service_notify("READY=1");
    expect(sock, "READY=1");
    g_unlink(path);
    g_rmdir(folder);
}

static void test_abstract(void)
{
    g_autofree char *name = g_strdup_printf("@btrail-notify-%d", getpid());
    g_autofree char *address = g_strdup(name);
    int sock;

    address[0] = '\0';
    sock = listen_at(address, strlen(name));
    g_setenv("NOTIFY_SOCKET", name, TRUE);
    service_notify("STOPPING=1");
    expect(sock, "STOPPING=1");
}

/* Nobody listens, or that is no address: nothing happens. */
static void test_nobody(void)
{
    g_autofree char *much = g_strnfill(200, '/');

    g_unsetenv("NOTIFY_SOCKET");
    service_notify("READY=1");
    g_setenv("NOTIFY_SOCKET", "", TRUE);
    service_notify("READY=1");
    g_setenv("NOTIFY_SOCKET", "relative", TRUE);
    service_notify("READY=1");
    g_setenv("NOTIFY_SOCKET", much, TRUE);
    service_notify("READY=1");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/notify/path", test_path);
    g_test_add_func("/notify/abstract", test_abstract);
    g_test_add_func("/notify/nobody", test_nobody);
    return g_test_run();
}
