/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail doctor: check whether guests can be traced, and say what to do
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/access.h"
#include "cli/cli.h"
#include "cli/pt-sessions.h"
#include "client/answer.h"
#include "client/service-client.h"
#include "libvirt/apparmor.h"
#include "libvirt/capabilities.h"
#include "libvirt/domain.h"
#include "libvirt/kvm-host.h"
#include "libvirt/machine-type.h"
#include "libvirt/tracing.h"
#include "pt/pt-host.h"
#include "pt/pt-open.h"
#include "util/json.h"
#include "util/unix-socket.h"

enum doctor_state {
    STATE_OK,
    STATE_NOTE,                 /* nothing is wrong, or it cannot be known */
    STATE_PROBLEM,
};

static const char *const state_names[] = { "ok", "note", "problem" };

struct doctor {
    char *connect;
    char *emulator;
    char *agent;
    gboolean json;
    const char *name;           /* of the domain, or NULL */
    struct domain guest;
    bool local;                 /* libvirt's host is this one */
    xmlDoc *capabilities;       /* of that host, or NULL */
    xmlDoc *emulator_capabilities;      /* or NULL */
    xmlDoc *domain;             /* as it will be started, or NULL */
    unsigned problems;
    JsonArray *checks;          /* with --json */
};

static void G_GNUC_PRINTF(4, 5) report(struct doctor *d, const char *check,
                                       enum doctor_state state,
                                       const char *format,
                                       ...)
{
    g_autofree char *message = NULL;
    va_list args;

    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    d->problems += state == STATE_PROBLEM;
    if (d->checks) {
        json_array_add_object_element(d->checks, btrail_json_new(
            "s:check", check, "s:state", state_names[state],
            "s:message", message, NULL));
    } else {
        cli_printf("%-8s %-11s %s\n", state_names[state], check, message);
    }
}

#define problem(d, check, ...)  report(d, check, STATE_PROBLEM, __VA_ARGS__)
#define note(d, check, ...)     report(d, check, STATE_NOTE, __VA_ARGS__)
#define ok(d, check, ...)       report(d, check, STATE_OK, __VA_ARGS__)

/* Parses and frees what libvirt has returned; NULL if it is not XML. */
static xmlDoc *parse_text(char *text)
{
    xmlDoc *doc = text ? document_parse(text, strlen(text), NULL) :
                  NULL;

    free(text);
    return doc;
}

static bool check_libvirt(struct doctor *d)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *uri = NULL;
    const char *driver;

    if (!domain_open(&d->guest, d->connect, NULL, &error)) {
        problem(d, "libvirt", "%s; install libvirt (libvirt-daemon-system) or "
                "start it, join its group (libvirt), or name its URI with "
                "--connect", error->message);
        return false;
    }
    uri = virConnectGetURI(d->guest.connection);
    driver = virConnectGetType(d->guest.connection);
    d->local = domain_is_local(uri);
    if (!driver || strcmp(driver, "QEMU")) {
        problem(d, "libvirt", "%s does not run QEMU, whose guests are the only "
                "ones that can be traced; use --connect qemu:///system", uri);
        return false;
    }
    ok(d, "libvirt", "connected to %s", uri);
    d->capabilities =
        parse_text(virConnectGetCapabilities(d->guest.connection));
    return true;
}

/* Asks the QEMU at @path itself whether it has the device. */
static void ask_emulator(struct doctor *d, const char *path)
{
    /* Another program of this name may never end. */
    char *argv[] = {
        (char *)"timeout", (char *)"60", (char *)path, (char *)"-device",
        (char *)"branch-trace,help", NULL,
    };
    g_autofree char *output = NULL, *errors = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (access(path, X_OK)) {
        problem(d, "emulator", "%s: %s; install the package backtrail-qemu, or "
                "build a QEMU with Backtrail's patches (scripts/build qemu) "
                "and name it with --emulator", path, g_strerror(errno));
    } else if (!g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH |
                             G_SPAWN_STDIN_FROM_DEV_NULL, NULL, NULL, &output,
                             &errors, &status, &error)) {
        note(d, "emulator", "%s", error->message);
    } else if (!g_spawn_check_wait_status(status, NULL) || !output ||
               !strstr(output, "agent=")) {
        if (d->name && !d->emulator && strcmp(path, BACKTRAIL_EMULATOR) &&
            !access(BACKTRAIL_EMULATOR, X_OK)) {
            problem(d, "emulator", "%s has no branch-trace device; "
                    "backtrail enable %s replaces it by %s", path, d->name,
                    BACKTRAIL_EMULATOR);
            return;
        }
        problem(d, "emulator", "%s has no branch-trace device; install the "
                "package backtrail-qemu, or build a QEMU with Backtrail's "
                "patches (scripts/build qemu), and name it with backtrail "
                "enable --emulator", path);
    } else {
        ok(d, "emulator", "%s has the branch-trace device", path);
    }
}

static void check_emulator(struct doctor *d, const char *path)
{
    virConnectPtr connection = d->guest.connection;
    char *capabilities;

    /* libvirt runs QEMU as another user, maybe on another host. */
    if (connection) {
        capabilities = virConnectGetDomainCapabilities(connection, path,
                                                       "x86_64", NULL, "qemu",
                                                       0);
        if (!capabilities) {
            problem(d, "emulator", "libvirt cannot use %s (%s); check that it "
                    "exists, and that the user who runs libvirt's guests can "
                    "read and execute it and all folders above it", path,
                    domain_last_error());
            return;
        }
        d->emulator_capabilities = parse_text(capabilities);
    }
    if (d->local) {
        ask_emulator(d, path);
    } else {
        note(d, "emulator", "libvirt can use %s; whether it has Backtrail's "
             "patches can be checked on its host only, or while the guest runs",
             path);
    }
}

/* Why KVM does not work although it exists; NULL if it works */
static const char *kvm_fault(int kvm)
{
    int vm = ioctl(kvm, KVM_CREATE_VM, 0), vcpu;

    if (vm < 0) {
        return "it cannot create a virtual machine";
    }
    vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    close(vm);
    if (vcpu < 0) {
        return "it cannot create a vCPU";
    }
    close(vcpu);
    return NULL;
}

/* Do the host's CPUs report that they can virtualize? */
static bool has_virtualization(void)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) words = NULL;

    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)) {
        return true;
    }
    words = g_strsplit_set(text, " \n", -1);
    return g_strv_contains((const char *const *)words, "vmx") ||
           g_strv_contains((const char *const *)words, "svm");
}

/* Can KVM trace?  Domains that QEMU emulates do not need it. */
static void check_kvm_trace(struct doctor *d, bool wanted)
{
    g_autofree char *fault = kvm_host_fault("");

    if (!fault) {
        ok(d, "kvm-trace", "KVM can trace its guests, by the CPU's Branch "
           "Trace Store");
    } else {
        report(d, "kvm-trace", wanted ? STATE_PROBLEM : STATE_NOTE,
               "KVM cannot trace its guests: %s; or have QEMU emulate them: "
               "backtrail enable --tcg", fault);
    }
}

/* Can others than root have it? */
static void check_pt_open(struct doctor *d, int paranoid)
{
    g_autofree char *path = pt_open_program();
    g_autofree char *fault = pt_open_fault(path, paranoid);

    if (fault) {
        note(d, "pt-open", "%s", fault);
    } else {
        ok(d, "pt-open", "%s can open events of your own guests", path);
    }
}

/* Can start --pt have its process found? */
static void check_pt_sessions(struct doctor *d)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = pt_sessions_folder(&error);
    g_autoptr(GPtrArray) list = folder ? pt_sessions_find(NULL, NULL, NULL,
                                                          NULL) : NULL;

    if (!folder) {
        note(d, "pt-sessions", "start --pt: %s", error->message);
    } else {
        ok(d, "pt-sessions", "start --pt keeps your sessions in %s, where "
           "there %s %u", folder, list->len == 1 ? "is" : "are", list->len);
    }
}

/*
 * What Intel PT of this host can do.  No guest needs it: nothing here is a
 * problem.
 */
static void check_pt(struct doctor *d)
{
    struct pt_host *h = pt_host_read("");
    g_autofree char *words = pt_host_words(h);

    if (!pt_host_fault(h)) {
        ok(d, "pt", "the kernel can trace threads by Intel PT: %s; nobody has "
           "tried it with Backtrail on a CPU", words);
    }
    for (unsigned i = 0; i < h->words->len; i++) {
        const struct pt_host_word *w = h->words->pdata[i];

        note(d, w->about, "%s", w->text);
    }
    if (h->there && geteuid()) {
        check_pt_open(d, h->paranoid);
    }
    if (h->there) {
        check_pt_sessions(d);
    }
    pt_host_free(h);
}

static void check_kvm(struct doctor *d, bool wanted)
{
    int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    int reason = errno;
    const char *fault;

    if (wanted || !d->name) {
        check_kvm_trace(d, wanted);
        check_pt(d);
    }
    if (kvm < 0 && (reason == ENOENT || reason == ENODEV)) {
        report(d, "kvm", wanted ? STATE_PROBLEM : STATE_OK, "there is no KVM; "
               "guests that QEMU emulates do not need it: backtrail enable "
               "--tcg changes a domain's type to 'qemu'");
        return;
    }
    if (kvm < 0) {
        note(d, "kvm", "you cannot use /dev/kvm (%s); guests that QEMU "
             "emulates do not need it", g_strerror(reason));
        return;
    }
    fault = has_virtualization() ? kvm_fault(kvm) :
            "the CPUs have neither VMX nor SVM";
    close(kvm);
    if (!fault) {
        ok(d, "kvm", "KVM works");
    } else {
        report(d, "kvm", wanted ? STATE_PROBLEM : STATE_NOTE, "/dev/kvm "
               "does not work: %s; domains of type 'kvm' will not run here: "
               "backtrail enable --tcg changes the type to 'qemu'", fault);
    }
}

/*
 * The user that runs the guest's QEMU, or would run it; false if that is not
 * known
 */
static bool qemu_user(struct doctor *d, struct cli_user *user)
{
    virSecurityLabelPtr labels = NULL;
    g_autofree char *label = NULL;
    bool found = false;
    int i, n = 0;

    if (d->guest.domain && virDomainIsActive(d->guest.domain) == 1) {
        n = virDomainGetSecurityLabelList(d->guest.domain, &labels);
    } else if (d->capabilities) {
        label = capabilities_label(d->capabilities, "dac", "qemu");
        found = label && cli_user_parse(user, label);
    }
    for (i = 0; i < n && !found; i++) {
        found = cli_user_parse(user, labels[i].label);
    }
    free(labels);
    return found;
}

/*
 * Tries whether a service has the stream socket at @path open: 0, or an errno.
 * The service would take a connection for a device, so this asks for one of
 * another type, which the kernel refuses with EPROTOTYPE.  /proc/net/unix does
 * not show sockets of other network namespaces, and backtraild.service has one
 * of its own.
 */
static int check_listens(const char *path)
{
    int sock = unix_try(path, SOCK_DGRAM);

    if (sock < 0) {
        return errno == EPROTOTYPE ? 0 : errno;
    }
    close(sock);
    return 0;
}

static void check_agent(struct doctor *d, const char *path)
{
    struct cli_user user = { 0 };
    g_autofree char *closed = NULL;
    struct stat st;
    int error;

    if (!path) {
        problem(d, "agent", "the device has no agent, so virsh cannot trace "
                "the guest; add one: backtrail enable --agent "
                TRACING_AGENT " %s", d->name);
    } else if (!d->local) {
        note(d, "agent", "%s is on libvirt's host, and can be checked there "
             "only", path);
    } else if (stat(path, &st)) {
        problem(d, "agent", "%s: %s; start the service: systemctl enable --now "
                "backtraild, or backtraild by hand", path, g_strerror(errno));
    } else if (!S_ISSOCK(st.st_mode)) {
        problem(d, "agent", "%s is not a socket; name the one that backtraild "
                "listens on", path);
    } else if ((error = check_listens(path)) == ECONNREFUSED) {
        problem(d, "agent", "no service listens on %s: it has ended; systemctl "
                "restart backtraild, and its journal says why", path);
    } else if (qemu_user(d, &user) &&
               (closed = cli_user_barrier(&user, path))) {
        problem(d, "agent", "the guest's QEMU runs as user %u, group %u, and "
                "%s keeps it from the agent's socket; add the user to that "
                "group, or make the socket's group one of the user's "
                "(SocketGroup= of backtraild.socket, or socket-group in "
                "backtraild.conf without it), then restart the guest",
                (unsigned)user.uid, (unsigned)user.gid, closed);
    } else if (error) {
        note(d, "agent", "%s exists, but you cannot find out whether a service "
             "listens on it (%s); root can", path, g_strerror(error));
    } else {
        ok(d, "agent", "an agent listens on %s", path);
    }
    cli_user_clear(&user);
}

/* An access that must be allowed; the administrator adds rules to the file of
 * the profile's name in local/ */
struct doctor_need {
    const char *profile;
    const char *path;
    const char *wanted;
    const char *rule;
};

/* libvirt is confined if its profile is there, each domain if AppArmor is. */
static void check_apparmor(struct doctor *d, const char *emulator,
                           const char *agent)
{
    g_autofree char *qemu = realpath(emulator, NULL);
    g_autofree char *folder = qemu ? g_path_get_dirname(qemu) : NULL;
    g_autofree char *bundle = qemu ? g_build_filename(folder, "qemu-bundle",
                                                      NULL) : NULL;
    g_autofree char *within = qemu ? g_build_filename(bundle, "usr", NULL) :
                              NULL;
    g_autofree char *socket = agent ? realpath(agent, NULL) : NULL;
    const struct doctor_need needs[] = {
        { "usr.sbin.libvirtd", qemu, "x", "PUx" },
        { "usr.sbin.virtqemud", qemu, "x", "PUx" },
        { APPARMOR_DOMAIN, qemu, "rmx", "rmix" },
        { APPARMOR_DOMAIN,
          within && !access(within, F_OK) ? within : NULL, "r", "r" },
        { APPARMOR_DOMAIN, socket ? socket : agent, "rw", "rw" },
    };
    g_autoptr(GString) lacking = g_string_new(NULL);
    bool unknown = false;

    if (!d->local || !d->capabilities ||
        !capabilities_confines(d->capabilities, d->domain,
                               "apparmor")) {
        return;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(needs); i++) {
        const struct doctor_need *n = &needs[i];
        enum apparmor may = !n->path ? APPARMOR_YES :
            apparmor_allows(APPARMOR_FOLDER, n->profile,
                            n->path, n->wanted);

        unknown |= may == APPARMOR_UNKNOWN;
        if (may == APPARMOR_NO) {
            g_string_append_printf(lacking, "%s'%s%s %s,' to "
                                   APPARMOR_FOLDER "/local/%s",
                                   lacking->len ? ", " : "", n->path,
                                   n->path == within ? "/**" : "", n->rule,
                                   n->profile);
        }
    }
    if (lacking->len) {
        problem(d, "apparmor", "AppArmor confines libvirt's guests, and its "
                "rules do not allow what tracing needs; install ours (the "
                "package backtrail-qemu, or scripts/install), or add %s, then "
                "systemctl reload apparmor",
                lacking->str);
    } else if (unknown) {
        note(d, "apparmor", "AppArmor confines libvirt's guests, and you "
             "cannot read all of its rules in " APPARMOR_FOLDER "; root "
             "can");
    } else {
        ok(d, "apparmor", "AppArmor's rules allow what tracing needs");
    }
}

static void check_selinux(struct doctor *d, const char *emulator)
{
    g_autofree char *qemu = realpath(emulator, NULL);

    if (d->capabilities &&
        capabilities_confines(d->capabilities, d->domain, "selinux")) {
        note(d, "selinux", "SELinux confines libvirt's guests; Backtrail has "
             "not been tested with it.  QEMU needs its label (semanage "
             "fcontext -a -t qemu_exec_t '%s', restorecon '%s'), and may need "
             "a policy module to connect to the agent's socket: ausearch -m "
             "avc shows what was refused", qemu ? qemu : emulator,
             qemu ? qemu : emulator);
    }
}

/* Parses the XML that the domain will be started with. */
static bool parse_domain(struct doctor *d, struct tracing_state *state)
{
    g_autofree char *text = virDomainGetXMLDesc(d->guest.domain,
                                                VIR_DOMAIN_XML_INACTIVE);
    g_autoptr(GError) error = NULL;

    memset(state, 0, sizeof(*state));
    if (!text) {
        problem(d, "domain", "%s", domain_last_error());
        return false;
    }
    d->domain = document_parse(text, strlen(text), &error);
    if (!d->domain || !tracing_inspect(d->domain, state, &error)) {
        problem(d, "domain", "%s", error->message);
        return false;
    }
    return true;
}

static void check_configuration(struct doctor *d,
                                const struct tracing_state *s)
{
    if (!s->device) {
        problem(d, "device", "the domain has no branch-trace device; add one: "
                "backtrail enable %s", d->name);
    } else {
        ok(d, "device", "the domain has '-device %s'", s->device);
    }
    if (s->kvm && !s->bits_64) {
        problem(d, "type", "the domain runs under KVM, which traces only "
                "guests with a CPU of 64 bits; have QEMU emulate it: backtrail "
                "enable --tcg %s", d->name);
    } else if (s->kvm && !d->local) {
        note(d, "type", "the domain runs under KVM; whether that can trace it "
             "can be checked on its host only");
    } else if (s->kvm) {
        ok(d, "type", "the domain runs under KVM, and its CPU has 64 bits");
    } else {
        ok(d, "type", "the domain is emulated by QEMU");
    }
    if (!s->shared) {
        problem(d, "memory", "the guest's memory is not shared, so no names "
                "can be read from it; share it: backtrail enable %s", d->name);
    } else if (s->partly) {
        problem(d, "memory", "a part of the guest's memory is private: "
                "processes there have no names; remove access='private' and "
                "memAccess='private' (virsh edit %s)", d->name);
    } else {
        ok(d, "memory", "the guest's memory is shared");
    }
    if (!s->vmcoreinfo && s->kvm && !s->root_entry) {
        problem(d, "vmcoreinfo", "without vmcoreinfo KVM does not trace the "
                "guest, since it needs to know that Linux runs there, of which "
                "it knows what is free in the page tables; add it: backtrail "
                "enable %s", d->name);
    } else if (!s->vmcoreinfo) {
        note(d, "vmcoreinfo", "without vmcoreinfo the names of a Linux guest "
             "may take longer to find; backtrail enable %s adds it", d->name);
    } else {
        ok(d, "vmcoreinfo", "the guest can report where its kernel is");
    }
    if (!s->panic) {
        note(d, "panic", "the guest cannot report a panic, at which sessions "
             "of mode 'last' are dumped; add <panic model='isa'/> to the "
             "domain's devices (virsh edit %s)", d->name);
    } else {
        ok(d, "panic", "the guest can report a panic if its kernel has a "
           "driver for pvpanic");
    }
}

/* Asks QEMU itself.  Returns whether its agent can be asked. */
static bool check_monitor(struct doctor *d)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) info = domain_execute(&d->guest,
                                                "query-branch-trace",
                                                NULL, &error);
    const char *capture, *state, *producer;

    if (info) {
        state = btrail_json_string(info, "state");
        capture = btrail_json_string(info, "capture");
        producer = btrail_json_string(info, "producer");
        if (state && !strcmp(state, "agent-lost")) {
            problem(d, "monitor", "the guest is being traced, but has lost its "
                    "agent; start backtraild to continue");
        } else {
            ok(d, "monitor", "QEMU answers; %s; producer: %s",
               !capture ? "it has not been traced yet" :
               state && !strcmp(state, "active") ? "it is being traced" :
               "it is not being traced now", producer ? producer : "none");
        }
        return true;
    }
    if (error->code == AGENT_ERROR_SYSTEM) {
        problem(d, "monitor", "libvirt cannot ask QEMU (%s); connect with "
                "write access, and check that the guest's QEMU answers",
                error->message);
    } else if (error->code == AGENT_ERROR_NO_COMMAND) {
        problem(d, "monitor", "the QEMU that runs the guest lacks Backtrail's "
                "patches; backtrail enable %s, then shut it down and start it",
                d->name);
    } else if (error->code == AGENT_ERROR_NO_DEVICE) {
        problem(d, "monitor", "the guest runs without a branch-trace device; "
                "backtrail enable %s, then shut it down and start it: a reboot "
                "is not enough", d->name);
    } else {
        problem(d, "monitor", "unexpected answer (%s); use the QEMU of this "
                "version of Backtrail", error->message);
    }
    return false;
}

/* What the service has found in the guest's memory, if it traces it now */
static void check_names(struct doctor *d, JsonObject *answer)
{
    JsonObject *capture = btrail_json_object(answer, "capture");
    JsonObject *names = capture ? btrail_json_object(capture, "names") : NULL;
    const char *kernel = names ? btrail_json_string(names, "kernel") : NULL;
    JsonArray *missing = names ? btrail_json_array(names, "missing") : NULL;
    unsigned n = missing ? json_array_get_length(missing) : 0;

    for (unsigned i = 0; kernel && i < n; i++) {
        JsonNode *node = json_array_get_element(missing, i);

        if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_string(node)) {
            note(d, "names", "Linux %s: %s", kernel,
                 json_node_get_string(node));
        }
    }
    if (kernel && !n) {
        ok(d, "names", "Linux %s is named", kernel);
    }
}

/* Asks the service through QEMU. */
static void check_service(struct doctor *d)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = domain_execute(
        &d->guest, SERVICE_CLIENT_COMMAND, service_client_arguments(
        btrail_json_new("s:do", "status", NULL), NULL), &error);
    g_auto(GStrv) active = answer ? answer_active(answer, NULL) : NULL;

    if (answer) {
        ok(d, "service", "the agent answers; this guest has %u sessions",
           g_strv_length(active));
        check_names(d, answer);
    } else if (error->code == AGENT_ERROR_NO_COMMAND) {
        problem(d, "service", "the guest's QEMU is of an older Backtrail and "
                "cannot ask the service; shut the guest down and start it with "
                "the new QEMU");
    } else {
        problem(d, "service", "the agent cannot be asked: %s", error->message);
    }
}

/* Does the QEMU that the domain will be started with have its devices? */
static void check_devices(struct doctor *d)
{
    g_auto(GStrv) lacks = NULL;
    g_autofree char *list = NULL;

    if (!d->emulator_capabilities) {
        return;
    }
    lacks = capabilities_lacks(d->emulator_capabilities, d->domain);
    list = g_strjoinv(", ", lacks);
    if (*lacks) {
        problem(d, "devices", "the domain will not start: its QEMU lacks %s; "
                "change that (virsh edit %s), SPICE to <graphics type='vnc'/>, "
                "and remove channels and redirections of type 'spicevmc'",
                list, d->name);
    } else {
        ok(d, "devices", "the domain's QEMU has its displays and channels");
    }
}

static void check_machine(struct doctor *d, const char *emulator)
{
    g_autofree char *lacks = NULL;

    if (!d->emulator_capabilities) {
        return;
    }
    lacks = machine_type_lacks(d->guest.connection, emulator, d->domain,
                               d->name);
    if (lacks) {
        problem(d, "machine", "the domain will not start: %s", lacks);
    } else {
        ok(d, "machine", "the domain's QEMU has its machine type");
    }
}

/* A domain resumes from a saved state, whatever its configuration is now. */
static void check_saved(struct doctor *d)
{
    struct tracing_state s = { NULL };
    g_autoptr(xmlDoc) doc = NULL;

    if (virDomainHasManagedSaveImage(d->guest.domain, 0) != 1) {
        return;
    }
    doc = parse_text(virDomainManagedSaveGetXMLDesc(d->guest.domain, 0));
    if (!doc || !tracing_inspect(doc, &s, NULL)) {
        note(d, "saved", "the domain resumes from a saved state when it is "
             "started, with the devices that it had then; virsh "
             "managedsave-remove %s discards that state", d->name);
    } else if (!s.device) {
        problem(d, "saved", "the domain resumes from a saved state when it is "
                "started, in which it has no branch-trace device; start it and "
                "shut it down, or discard that state: virsh managedsave-remove "
                "%s", d->name);
    } else {
        ok(d, "saved", "the domain resumes from a saved state when it is "
           "started, which has the device, too");
    }
    tracing_state_clear(&s);
}

static void check_domain(struct doctor *d)
{
    struct tracing_state s;
    const char *emulator;

    if (!parse_domain(d, &s)) {
        return;
    }
    emulator = d->emulator ? d->emulator : s.emulator ? s.emulator :
               BACKTRAIL_EMULATOR;
    check_configuration(d, &s);
    check_saved(d);
    check_emulator(d, emulator);
    check_machine(d, emulator);
    check_devices(d);
    if (d->local) {
        check_kvm(d, s.kvm);
    }
    if (s.device) {
        const char *agent = d->agent ? d->agent : s.agent;

        check_agent(d, agent);
        check_apparmor(d, emulator, agent);
        check_selinux(d, emulator);
    }
    if (virDomainIsActive(d->guest.domain) != 1) {
        note(d, "monitor", "the domain is not running; virsh start %s starts "
             "it", d->name);
    } else if (check_monitor(d)) {
        check_service(d);
    }
    tracing_state_clear(&s);
}

static void run_checks(struct doctor *d)
{
    const char *emulator = d->emulator ? d->emulator : BACKTRAIL_EMULATOR;
    const char *agent = d->agent ? d->agent : TRACING_AGENT;
    g_autoptr(GError) error = NULL;

    if (!check_libvirt(d)) {
        if (!d->connect || domain_is_local(d->connect)) {
            d->local = true;
            ask_emulator(d, emulator);
            check_kvm(d, false);
            check_agent(d, agent);
        }
        return;
    }
    if (d->name) {
        domain_close(&d->guest);
        if (!domain_open(&d->guest, d->connect, d->name, &error)) {
            problem(d, "domain", "%s", error->message);
        } else {
            check_domain(d);
        }
        return;
    }
    check_emulator(d, emulator);
    if (d->local) {
        check_kvm(d, false);
    }
    check_agent(d, agent);
    check_apparmor(d, emulator, agent);
    check_selinux(d, emulator);
}

int cmd_doctor(int argc, char **argv)
{
    struct doctor d = { NULL };
    const GOptionEntry entries[] = {
        { "connect", 'c', 0, G_OPTION_ARG_STRING, &d.connect,
          "libvirt's URI (default: as for virsh)", "URI" },
        { "emulator", 0, 0, G_OPTION_ARG_FILENAME, &d.emulator,
          "QEMU with Backtrail's patches (default: the domain's; without one, "
          "as configured when Backtrail was built)", "PATH" },
        { "agent", 0, 0, G_OPTION_ARG_FILENAME, &d.agent,
          "the agent's unix socket (default: that of the domain's device; "
          "without one, " TRACING_AGENT ")", "PATH" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &d.json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Check whether guests, or a libvirt domain, can be "
                  "traced.")) {
        d.name = argv[1];
        d.checks = d.json ? json_array_new() : NULL;
        run_checks(&d);
        if (d.json) {
            cli_print_json(btrail_json_new("S:domain", d.name,
                                           "u:problems", d.problems,
                                           "a:checks", d.checks, NULL));
        }
        code = fflush(stdout) ? CLI_FAILED :
               d.problems ? CLI_DAMAGED : CLI_OK;
    }
    domain_close(&d.guest);
    g_clear_pointer(&d.capabilities, xmlFreeDoc);
    g_clear_pointer(&d.emulator_capabilities, xmlFreeDoc);
    g_clear_pointer(&d.domain, xmlFreeDoc);
    g_free(d.connect);
    g_free(d.emulator);
    g_free(d.agent);
    return code;
}
