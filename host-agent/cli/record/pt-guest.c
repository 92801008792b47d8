/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest of backtrail record --pt: see pt-guest.h
 */

#include <string.h>

#include "cli/cli.h"
#include "cli/record/pt-guest.h"
#include "libvirt/domain-process.h"
#include "pt/process-memory.h"
#include "util/agent-error.h"
#include "util/json.h"

#define QMP_TIMEOUT_MS  10000
/* Nothing is missed in between. */
#define WAIT_MS         60000

static bool print(GError *error)
{
    cli_error("%s", error->message);
    g_error_free(error);
    return false;
}

/* Tracing is not worth less without it. */
static void check_guard(struct pt_guest *g, const GError *error)
{
    if (error) {
        cli_error("%s stays stopped if this command is killed while it has "
                  "stopped it: %s", g->name, error->message);
    }
}

static bool open_domain(struct pt_guest *g, const char *connect, bool stops)
{
    g_autoptr(GError) unguarded = NULL;
    g_autofree char *uri = NULL;
    GError *error = NULL;
    bool stands;

    if (stops) {
        g->guard = pt_guard_domain(connect, g->name, &unguarded);
    }
    if (!domain_watch_prepare(&error) ||
        !domain_open(&g->domain, connect, g->name, &error)) {
        return print(error);
    }
    uri = virConnectGetURI(g->domain.connection);
    if (!domain_is_local(uri)) {
        cli_error("%s is on another host (%s), and its memory is read where it "
                  "is: run backtrail there", g->name, uri ? uri : "?");
        return false;
    }
    if (g_strcmp0(virConnectGetType(g->domain.connection), "QEMU")) {
        cli_error("%s does not run QEMU, whose guests are the only ones that "
                  "can be recorded; use --connect qemu:///system", uri);
        return false;
    }
    g->watch = domain_watch_new(&g->domain, &error);
    if (!g->watch || !domain_watch_stands(g->watch, &stands, &error)) {
        return print(error);
    }
    check_guard(g, unguarded);
    g->qmp = domain_monitor(&g->domain);
    return true;
}

/* Whoever has let it go on decides from then on. */
static void see_event(void *opaque, const char *name)
{
    struct pt_guest *g = opaque;

    if (g->stopped && !strcmp(name, "RESUME")) {
        g->stopped = false;
        pt_guard_released(g->guard);
    }
}

static bool open_monitor(struct pt_guest *g, int cancel_fd, bool stops)
{
    GError *error = NULL;

    g->qmp = qmp_connect(g->name, QMP_TIMEOUT_MS, cancel_fd, &error);
    if (!g->qmp) {
        return print(error);
    }
    /* That of its going on may come at any time. */
    qmp_keep_events(g->qmp);
    qmp_on_event(g->qmp, see_event, g);
    if (stops) {
        g->guard = pt_guard_monitor(g->name, g->qmp, &error);
        check_guard(g, error);
        g_clear_error(&error);
    }
    g->pid = qmp_peer(g->qmp);
    return true;
}

static bool malformed(const char *command)
{
    cli_error("the reply of QEMU to %s is malformed", command);
    return false;
}

static JsonNode *ask(struct pt_guest *g, const char *command,
                     int cancel_fd)
{
    g_autoptr(GError) error = NULL;
    JsonNode *node = qmp_execute(g->qmp, command, NULL, -1, QMP_TIMEOUT_MS,
                                 cancel_fd, &error);

    if (!node && g->watch && virDomainIsActive(g->domain.domain) == 0) {
        cli_error("%s has ended, and its memory with it; "
                  "<on_crash>preserve</on_crash> keeps a domain after a panic",
                  g->name);
    } else if (!node && g->watch &&
               g_error_matches(error, AGENT_ERROR, AGENT_ERROR_SYSTEM)) {
        cli_error("libvirt does not let this user ask the QEMU of %s (%s): "
                  "that takes a connection that may change the domain, as "
                  "root's to qemu:///system: %s", g->name, command,
                  error->message);
    } else if (!node) {
        cli_error("%s", error->message);
    }
    return node;
}

/*
 * The threads of the guest's vCPUs as QEMU calls them, and their numbers.
 * Returns how many; 0 after an error.
 */
static unsigned ask_threads(struct pt_guest *g, int cancel_fd, pid_t **threads,
                            unsigned **numbers)
{
    static const char command[] = "query-cpus-fast";
    g_autoptr(JsonNode) node = ask(g, command, cancel_fd);
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ?
                      json_node_get_array(node) : NULL;
    unsigned n = list ? json_array_get_length(list) : 0;

    if (!node) {
        return 0;
    }
    if (!n || n > BTRAIL_MAX_VCPUS) {
        return malformed(command);
    }
    *threads = g_new0(pid_t, n);
    *numbers = g_new0(unsigned, n);
    for (unsigned i = 0; i < n; i++) {
        JsonNode *item = json_array_get_element(list, i);
        JsonObject *o = JSON_NODE_HOLDS_OBJECT(item) ?
                        json_node_get_object(item) : NULL;
        gint64 thread = o ? btrail_json_int(o, "thread-id", 0) : 0;
        gint64 number = o ? btrail_json_int(o, "cpu-index", -1) : -1;

        if (thread <= 0 || thread > G_MAXINT || number < 0 ||
            number >= BTRAIL_MAX_VCPUS) {
            return malformed(command);
        }
        (*threads)[i] = (pid_t)thread;
        (*numbers)[i] = (unsigned)number;
    }
    return n;
}

static bool find_threads(struct pt_guest *g, int cancel_fd)
{
    g->n = ask_threads(g, cancel_fd, &g->own, &g->numbers);
    g->threads = g_memdup2(g->own, g->n * sizeof(*g->own));
    return g->n;
}

/* What they are called here, if QEMU is in a container */
static bool name_threads(struct pt_guest *g)
{
    GError *error = NULL;
    struct process_memory *p = process_memory_find(g->pid, &error);
    bool found = p || print(error);

    for (unsigned i = 0; found && i < g->n; i++) {
        pid_t own = g->threads[i];

        g->threads[i] = process_memory_thread(p, own);
        found = g->threads[i];
        if (!found) {
            cli_error("process %d is not this QEMU: it has no thread %d, which "
                      "runs vCPU %u", (int)g->pid, (int)own, g->numbers[i]);
        }
    }
    process_memory_free(p);
    return found;
}

static bool find_process(struct pt_guest *g)
{
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    GError *error = NULL;

    if (virDomainGetUUIDString(g->domain.domain, uuid) < 0) {
        cli_error("%s: %s", g->name, domain_last_error());
        return false;
    }
    g->pid = domain_process_find(uuid, g->threads, g->n, &error);
    return g->pid || print(error);
}

bool pt_guest_open(struct pt_guest *g, const char *connect, const char *domain,
                   const char *socket, bool threads, bool stops,
                   int cancel_fd)
{
    *g = (struct pt_guest){ .name = domain ? domain : socket };
    return (domain ? open_domain(g, connect, stops) :
            open_monitor(g, cancel_fd, stops)) &&
           ((!domain && !threads) || find_threads(g, cancel_fd)) &&
           (!domain || find_process(g)) &&
           (!threads || name_threads(g));
}

void pt_guest_clear(struct pt_guest *g)
{
    pt_guest_go_on(g);
    domain_watch_free(g->watch);
    qmp_free(g->qmp);
    domain_close(&g->domain);
    pt_guard_free(g->guard);
    g_free(g->threads);
    g_free(g->own);
    g_free(g->numbers);
    *g = (struct pt_guest){ 0 };
}

bool pt_guest_runs(struct pt_guest *g, int cancel_fd, bool *runs)
{
    g_autoptr(JsonNode) node = ask(g, "query-status", cancel_fd);
    JsonObject *status = node && JSON_NODE_HOLDS_OBJECT(node) ?
                         json_node_get_object(node) : NULL;

    if (!node) {
        return false;
    }
    if (!status || !json_object_has_member(status, "running")) {
        return malformed("query-status");
    }
    *runs = btrail_json_is_true(status, "running");
    return true;
}

/* By the monitor */
static bool wait_for_event(struct pt_guest *g, gint64 until, int cancel_fd,
                           GError **error)
{
    static const char *const ends[] = { "GUEST_PANICKED", "STOP", NULL };
    g_autoptr(GError) why = NULL;
    bool ended = false;
    char *name;

    while (!ended && !why) {
        gint64 left = until ? (until - g_get_monotonic_time() + 999) / 1000 :
                      WAIT_MS;

        name = qmp_next_event(g->qmp, (int)CLAMP(left, 0, WAIT_MS), cancel_fd,
                              &why);
        ended = name && g_strv_contains(ends, name);
        g_free(name);
        if (g_error_matches(why, AGENT_ERROR, AGENT_ERROR_TIMEOUT) &&
            (!until || g_get_monotonic_time() < until)) {
            g_clear_error(&why);
        }
    }
    if (why) {
        g_propagate_error(error, g_steal_pointer(&why));
    }
    return ended;
}

bool pt_guest_wait(struct pt_guest *g, gint64 until, int cancel_fd,
                   bool *cancelled)
{
    g_autoptr(GError) error = NULL;
    bool ended = g->watch ?
                 domain_watch_wait(g->watch, until, cancel_fd, &error) :
                 wait_for_event(g, until, cancel_fd, &error);

    *cancelled = !ended && agent_is_cancelled(error);
    if (!ended && !*cancelled &&
        !g_error_matches(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT)) {
        cli_error("%s", error->message);
        return false;
    }
    return true;
}

unsigned pt_guest_plugged(struct pt_guest *g, unsigned *numbers)
{
    g_autofree unsigned *all = NULL;
    g_autofree pid_t *threads = NULL;
    unsigned n = ask_threads(g, -1, &threads, &all), plugged = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned k = 0;

        while (k < g->n && (g->own[k] != threads[i] ||
                            g->numbers[k] != all[i])) {
            k++;
        }
        if (k == g->n) {
            numbers[plugged++] = all[i];
        }
    }
    return plugged;
}

void pt_guest_print_plugged(unsigned number)
{
    cli_error("vCPU %u was plugged after tracing had begun: what it did since "
              "is not in the trace", number);
}

static enum pt_guest_news stood(struct pt_guest *g, bool stands)
{
    bool before = g->stood;

    g->stood = stands;
    return stands == before ? PT_GUEST_NOTHING :
           stands ? PT_GUEST_STOPPED : PT_GUEST_WENT_ON;
}

static enum pt_guest_news domain_news(struct pt_guest *g)
{
    g_autoptr(GError) error = NULL;
    bool stands = false;

    if (domain_watch_stands(g->watch, &stands, &error)) {
        return stood(g, stands);
    }
    /* While it is dumped, say, it is not known. */
    return g_error_matches(error, AGENT_ERROR, AGENT_ERROR_COMMAND) ?
           PT_GUEST_NOTHING : PT_GUEST_ENDED;
}

enum pt_guest_news pt_guest_news(struct pt_guest *g)
{
    enum pt_guest_news news = PT_GUEST_NOTHING;
    g_autoptr(GError) error = NULL;

    if (g->watch) {
        return domain_news(g);
    }
    while (news == PT_GUEST_NOTHING) {
        g_autofree char *name = qmp_next_event(g->qmp, 0, -1, &error);

        if (!name) {
            return g_error_matches(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT) ?
                   PT_GUEST_NOTHING : PT_GUEST_ENDED;
        }
        news = !strcmp(name, "STOP") ? stood(g, true) :
               !strcmp(name, "RESUME") ? stood(g, false) :
               !strcmp(name, "GUEST_PANICKED") ? PT_GUEST_PANICKED :
               PT_GUEST_NOTHING;
    }
    return news;
}

static bool command(struct pt_guest *g, const char *name)
{
    GError *error = NULL;
    g_autoptr(JsonNode) node = qmp_execute(g->qmp, name, NULL, -1,
                                           QMP_TIMEOUT_MS, -1, &error);

    return node || print(error);
}

bool pt_guest_stop(struct pt_guest *g)
{
    GError *error = NULL;

    /* If that fails, it may yet be stopped. */
    pt_guard_stops(g->guard);
    g->stopped = !g->watch ? command(g, "stop") :
                 domain_watch_stop(g->watch, &error) || print(error);
    return g->stopped;
}

/* The events of it have been read then, too. */
static bool has_gone_on(struct pt_guest *g)
{
    bool runs;

    return g->watch ? domain_watch_resumed(g->watch) :
           (pt_guest_runs(g, -1, &runs) && runs) || !g->stopped;
}

bool pt_guest_go_on(struct pt_guest *g)
{
    GError *error = NULL;
    bool ok = true;

    if (!g->stopped) {
        return true;
    }
    if (!has_gone_on(g)) {
        ok = !g->watch ? command(g, "cont") :
             domain_watch_go_on(g->watch, &error) || print(error);
    }
    g->stopped = false;
    if (ok) {
        pt_guard_released(g->guard);
    }
    return ok;
}

bool pt_guest_ran(struct pt_guest *g)
{
    bool runs, ran = !pt_guest_runs(g, -1, &runs) || runs;
    char *name;

    if (g->watch) {
        return domain_watch_ran(g->watch) || ran;
    }
    while ((name = qmp_next_event(g->qmp, 0, -1, NULL))) {
        ran |= !strcmp(name, "RESUME") || !strcmp(name, "RESET");
        g_free(name);
    }
    return ran;
}

void pt_guest_flow(const struct pt_host *host,
                   const struct pt_event_setup *setup,
                   struct pt_flow_options *flow)
{
    flow->linear = host->linear;
    memcpy(flow->tsc_per_ctc, host->tsc_per_ctc, sizeof(host->tsc_per_ctc));
    flow->mtc_shift = setup->mtc_shift;
    flow->bus_ratio = host->bus_ratio;
    flow->returns = setup->returns;
}
