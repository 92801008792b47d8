/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: agent SOCKET FILE
 *
 * Listens on a unix socket until one device connects, and writes what it makes
 * into a trace, with the names that it finds in the guest's memory.  Any user
 * may connect.  Exits with 3 if it finds none.
 */

#include <json-glib/json-glib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "capture.h"

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct btrail_store_options store_options = { NULL };
    struct btrail_capture_options capture_options = { .names = true };
    struct btrail_session_options options = { NULL };
    struct btrail_capture_result capture_result;
    struct btrail_session_result result;
    struct btrail_capture *capture;
    struct btrail_session *session;
    struct pollfd done = { .events = POLLIN };
    int sock;

    if (argc != 3 || strlen(argv[1]) >= sizeof(address.sun_path)) {
        return 2;
    }
    strcpy(address.sun_path, argv[1]);
    umask(0);
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 ||
        bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(sock, 1) < 0) {
        return fail(argv[1]);
    }
    capture_options.sock = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
    if (capture_options.sock < 0) {
        return fail("accept");
    }
    unlink(argv[1]);
    store_options.path = argv[2];
    if (btrail_store_open(&options.store, &store_options)) {
        return fail(argv[2]);
    }
    options.metadata = json_object_new();
    session = btrail_session_new(&options, NULL);
    capture = btrail_capture_start(&capture_options);
    btrail_capture_add(capture, session);
    done.fd = btrail_session_done_fd(session);
    while (poll(&done, 1, -1) < 0) {
        continue;
    }
    btrail_capture_stop(capture);
    btrail_capture_finish(capture, &capture_result);
    g_clear_error(&capture_result.error);
    btrail_session_finish(session, &result);
    json_object_unref(options.metadata);
    if (result.error) {
        fprintf(stderr, "%s\n", result.error->message);
        return 1;
    }
    if (result.no_names) {
        fprintf(stderr, "no names: %s\n", result.no_names);
        return 3;
    }
    return result.unexplained != 0;
}
