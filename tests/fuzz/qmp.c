/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a monitor
 *
 * The input is all that it sends; then it closes the connection.
 */

#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "util/json.h"
#include "monitor/qmp.h"

#define TIMEOUT_MS  1000

/* Ask for members as if they had a type, which they may not have. */
static void look_at(JsonNode *node)
{
    JsonObject *object, *inner;

    if (!JSON_NODE_HOLDS_OBJECT(node)) {
        return;
    }
    object = json_node_get_object(node);
    btrail_json_string(object, "name");
    btrail_json_int(object, "name", 0);
    inner = btrail_json_object(object, "name");
    if (inner) {
        btrail_json_int(inner, "name", 0);
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    struct qmp *qmp;
    int socks[2];

    fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
    if (send(socks[0], data, size, MSG_DONTWAIT) != (ssize_t)size) {
        close(socks[0]);
        close(socks[1]);
        return -1;
    }
    fuzz_require(!shutdown(socks[0], SHUT_WR));

    qmp = qmp_new(socks[1], TIMEOUT_MS, -1, &error);
    fuzz_require(!qmp == !!error);
    if (qmp) {
        const char *version = qmp_version(qmp);
        g_autoptr(JsonNode) node = NULL;

        fuzz_accepted();
        fuzz_require(!version || g_utf8_validate(version, -1, NULL));
        node = qmp_execute(qmp, "query-branch-trace", NULL, -1,
                           TIMEOUT_MS, -1, &error);
        fuzz_require(!node == !!error);
        if (node) {
            look_at(node);
        }
        qmp_free(qmp);
    }
    /* It would have closed the connection before waiting for nothing. */
    fuzz_require(!error || error->code != AGENT_ERROR_TIMEOUT);
    close(socks[0]);
    return 0;
}
