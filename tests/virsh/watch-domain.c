/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: watch-domain URI DOMAIN
 *
 * Asks what backtrail record --pt asks of a domain, and answers each line with
 * one: "ok", "yes", "no", a number, "cancelled", or "error: WHY".
 *
 *   stands     does it stand?
 *   wait       until it stands, or until another line comes
 *   stop, go-on
 *   ran        has it run since this was asked last?
 *   process    which is QEMU's?
 */

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libvirt/domain-process.h"
#include "libvirt/domain-watch.h"
#include "util/json.h"

#define VCPUS   64

static pid_t find_process(struct domain *d, GError **error)
{
    struct qmp *qmp = domain_monitor(d);
    g_autoptr(JsonNode) node = qmp_execute(qmp, "query-cpus-fast", NULL, -1,
                                           10000, -1, error);
    JsonArray *list = node ? json_node_get_array(node) : NULL;
    unsigned n = list ? MIN(json_array_get_length(list), VCPUS) : 0;
    char uuid[VIR_UUID_STRING_BUFLEN];
    pid_t threads[VCPUS];

    qmp_free(qmp);
    for (unsigned i = 0; i < n; i++) {
        threads[i] = (pid_t)btrail_json_int(
            json_array_get_object_element(list, i), "thread-id", 0);
    }
    return n && !virDomainGetUUIDString(d->domain, uuid) ?
           domain_process_find(uuid, threads, n, error) : 0;
}

static const char *yes(bool what)
{
    return what ? "yes" : "no";
}

static char *answer(struct domain *d, struct domain_watch *w, const char *line,
                    GError **error)
{
    bool stands, ok = false;

    if (!strcmp(line, "stands\n")) {
        ok = domain_watch_stands(w, &stands, error);
        return ok ? g_strdup(yes(stands)) : NULL;
    }
    if (!strcmp(line, "ran\n")) {
        return g_strdup(yes(domain_watch_ran(w)));
    }
    if (!strcmp(line, "process\n")) {
        pid_t pid = find_process(d, error);

        return pid ? g_strdup_printf("%d", (int)pid) : NULL;
    }
    if (!strcmp(line, "wait\n")) {
        ok = domain_watch_wait(w, 0, STDIN_FILENO, error);
    } else if (!strcmp(line, "stop\n")) {
        ok = domain_watch_stop(w, error);
    } else if (!strcmp(line, "go-on\n")) {
        ok = domain_watch_go_on(w, error);
    }
    return ok ? g_strdup("ok") : NULL;
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    struct domain_watch *w;
    struct domain d;
    char line[80];

    if (argc != 3 || !domain_watch_prepare(&error) ||
        !domain_open(&d, argv[1], argv[2], &error) ||
        !(w = domain_watch_new(&d, &error))) {
        fprintf(stderr, "watch-domain: %s\n", error ? error->message :
                "usage: watch-domain URI DOMAIN");
        return 1;
    }
    setlinebuf(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        g_autofree char *text = answer(&d, w, line, &error);

        if (text) {
            puts(text);
        } else if (agent_is_cancelled(error)) {
            puts("cancelled");
        } else {
            printf("error: %s\n", error ? error->message : "?");
        }
        g_clear_error(&error);
    }
    domain_watch_free(w);
    domain_close(&d);
    return 0;
}
