/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The XML of a domain that can be traced: see tracing.h
 *
 * The old values are noted in the domain's metadata, where libvirt keeps
 * elements of others:
 *
 *   <metadata>
 *     <backtrail:domain xmlns:backtrail="urn:backtrail:domain:1">
 *       <backtrail:value element="devices/emulator" was="/usr/bin/kvm"
 *                        now="/opt/qemu"/>
 *       <backtrail:value element="features/vmcoreinfo" attribute="state"
 *                        now="on" created="1"/>
 *       <backtrail:device now="branch-trace" created="1"/>
 *       <backtrail:channel now="/run/backtrail/agent.sock.names"
 *                          created="1"/>
 *     </backtrail:domain>
 *   </metadata>
 *
 * "created" counts the elements that were added, the innermost first; that of a
 * channel is the controller, which libvirt adds itself if there is none.  libvirt
 * formats and sorts the XML, so all of this goes by values, never by positions.
 */

#include <string.h>

#include "backtrail/guest-names.h"
#include "libvirt/domain-device.h"
#include "libvirt/names-channel.h"
#include "libvirt/tracing.h"

#define PREFIX          "backtrail"

enum setting {
    SET_TYPE, SET_CPU, SET_EMULATOR, SET_SOURCE, SET_ACCESS, SET_VMCOREINFO,
    SETTINGS,
};

static const struct setting_place {
    const char *element;    /* one or two names, or "." */
    const char *attribute;  /* NULL: its content */
} places[SETTINGS] = {
    [SET_TYPE] = { ".", "type" },
    [SET_CPU] = { "cpu", "mode" },
    [SET_EMULATOR] = { "devices/emulator", NULL },
    [SET_SOURCE] = { "memoryBacking/source", "type" },
    [SET_ACCESS] = { "memoryBacking/access", "mode" },
    [SET_VMCOREINFO] = { "features/vmcoreinfo", "state" },
};

static void change_free(void *opaque)
{
    struct tracing_change *c = opaque;

    g_free(c->where);
    g_free(c->attribute);
    g_free(c->was);
    g_free(c->now);
    g_free(c);
}

static void add_change(GPtrArray *changes, const char *where,
                       const char *attribute, const char *was,
                       const char *now, bool kept)
{
    struct tracing_change *c = g_new0(struct tracing_change, 1);

    c->where = g_strdup(where);
    c->attribute = g_strdup(attribute);
    c->was = g_strdup(was);
    c->now = g_strdup(now);
    c->kept = kept;
    g_ptr_array_add(changes, c);
}

static xmlNode *domain_root(xmlDoc *doc, GError **error)
{
    xmlNode *root = xmlDocGetRootElement(doc);

    if (!root || root->ns || strcmp((const char *)root->name, "domain")) {
        g_set_error(error, DOMAIN_ERROR, DOMAIN_ERROR_XML,
                    "this is not the XML of a domain: it does not begin with "
                    "<domain>");
        return NULL;
    }
    return root;
}

/* Returns the element of a place, or NULL. */
static xmlNode *find_element(xmlNode *root, const char *element)
{
    g_auto(GStrv) names = g_strsplit(element, "/", -1);
    xmlNode *node = root;

    for (unsigned i = 0; node && names[i] && strcmp(names[i], "."); i++) {
        node = document_child(node, names[i], NULL);
    }
    return node;
}

/* The same; adds and counts missing elements. */
static xmlNode *find_or_add(xmlNode *root, const char *element,
                            unsigned *created)
{
    g_auto(GStrv) names = g_strsplit(element, "/", -1);
    xmlNode *node = root;

    *created = 0;
    for (unsigned i = 0; names[i] && strcmp(names[i], "."); i++) {
        xmlNode *child = document_child(node, names[i], NULL);

        if (!child) {
            child = document_add(node, names[i], NULL, *created);
            ++*created;
        }
        node = child;
    }
    return node;
}

/* The current value, for comparison */
static char *value_of(const xmlNode *node, const char *attribute)
{
    return attribute ? document_get(node, attribute) :
           document_content(node);
}

static void set_count(xmlNode *note, unsigned created)
{
    if (created) {
        char text[] = { '0' + created, 0 };

        document_set(note, "created", text);
    }
}

static void set_value(xmlNode *root, xmlNode *record, bool fresh,
                      const struct setting_place *place, const char *value,
                      GPtrArray *changes)
{
    g_autofree char *old = NULL, *was = NULL;
    unsigned created;
    xmlNode *node = find_or_add(root, place->element, &created), *note;

    old = value_of(node, place->attribute);
    if (!g_strcmp0(old, value)) {
        return;
    }
    note = document_add(record, "value", record->ns, fresh);
    document_set(note, "element", place->element);
    if (place->attribute) {
        was = g_strdup(old);
        document_set(note, "attribute", place->attribute);
        document_set(node, place->attribute, value);
    } else {
        g_autofree char *xml = g_markup_escape_text(value, -1);

        /* With its comments */
        was = document_get_inner(node);
        document_set_inner(node, xml);
    }
    document_set(note, "was", was);
    document_set(note, "now", value);
    set_count(note, created);
    add_change(changes, place->element, place->attribute, was, value, false);
}

/* Our note in the metadata */
static xmlNode *find_record(xmlNode *root)
{
    xmlNode *metadata = document_child(root, "metadata", NULL);

    return metadata ? document_child(metadata, "domain",
                                     TRACING_NAMESPACE) : NULL;
}

static xmlNode *add_record(xmlNode *root)
{
    unsigned created;
    xmlNode *metadata = find_or_add(root, "metadata", &created);
    xmlNode *record = document_add(metadata, "domain", NULL, created);

    xmlSetNs(record, xmlNewNs(record,
                              (const xmlChar *)TRACING_NAMESPACE,
                              (const xmlChar *)PREFIX));
    set_count(record, created);
    return record;
}

static bool add_device(xmlNode *root, xmlNode *record,
                       const struct tracing_options *options,
                       GPtrArray *changes, GError **error)
{
    g_autofree char *value = domain_device_argument(options->agent);
    xmlNode *option, *note;
    xmlNode *theirs = domain_device_find(root, NULL, &option);

    if (theirs) {
        g_autofree char *has = document_get(theirs, "value");

        if (options->agent && !options->any_agent && strcmp(has, value)) {
            g_set_error(error, DOMAIN_ERROR,
                        DOMAIN_ERROR_CONFLICT,
                        "the domain has '-device %s' of its own, and there "
                        "can be only one: change or remove it in its "
                        "<qemu:commandline>, or omit --agent", has);
            return false;
        }
        return true;
    }
    note = document_add(record, "device", record->ns, false);
    document_set(note, "now", value);
    set_count(note, domain_device_add(root, value));
    add_change(changes, "qemu:commandline", NULL, NULL, value, false);
    return true;
}

static bool add_channel(xmlNode *root, xmlNode *record, const char *agent,
                        GPtrArray *changes, GError **error)
{
    g_autofree char *path = g_strconcat(agent, TRACING_NAMES, NULL);
    unsigned created;
    xmlNode *devices = find_or_add(root, "devices", &created);
    xmlNode *theirs = names_channel_find(devices), *note;

    if (theirs) {
        g_autofree char *has = names_channel_path(theirs);

        if (!g_strcmp0(has, path)) {
            return true;
        }
        g_set_error(error, DOMAIN_ERROR, DOMAIN_ERROR_CONFLICT,
                    "the domain has a channel '" BTRAIL_GUEST_PORT "' of its "
                    "own, and there can be only one: remove it, or omit "
                    "--guest-names");
        return false;
    }
    note = document_add(record, "channel", record->ns, false);
    document_set(note, "now", path);
    set_count(note, names_channel_add(devices, path));
    add_change(changes, "devices/channel", NULL, NULL, path, false);
    return true;
}

static bool check_architecture(xmlNode *root, GError **error)
{
    xmlNode *type = find_element(root, "os/type");
    g_autofree char *arch = type ? document_get(type, "arch") : NULL;
    g_autofree char *what = document_get(root, "type");

    if (arch && strcmp(arch, "x86_64") && strcmp(arch, "i686")) {
        g_set_error(error, DOMAIN_ERROR,
                    DOMAIN_ERROR_UNSUPPORTED,
                    "this guest is %s; only x86_64 and i686 can be traced",
                    arch);
        return false;
    }
    if (g_strcmp0(what, "kvm") && g_strcmp0(what, "qemu")) {
        g_set_error(error, DOMAIN_ERROR,
                    DOMAIN_ERROR_UNSUPPORTED,
                    "this domain is of type '%s'; only those of QEMU can be "
                    "traced (types 'qemu' and 'kvm')",
                    what ? what : "");
        return false;
    }
    return true;
}

/* Models of QEMU's that have no long mode */
static bool is_old_model(const char *model)
{
    static const char *const models[] = {
        "486", "athlon", "coreduo", "kvm32", "n270", "pentium", "pentium2",
        "pentium3", "pentiumpro", "qemu32", NULL,
    };

    return g_strv_contains(models, model);
}

/* Has the guest's CPU 64 bits?  If nothing is said, it has. */
static bool is_64_bit(xmlNode *root)
{
    xmlNode *type = find_element(root, "os/type");
    xmlNode *cpu = find_element(root, "cpu"), *child;
    xmlNode *model = find_element(root, "cpu/model");
    g_autofree char *arch = type ? document_get(type, "arch") : NULL;
    g_autofree char *name = model ? document_content(model) : NULL;

    for (child = cpu ? cpu->children : NULL; child; child = child->next) {
        g_autofree char *feature = document_is(child, "feature", NULL) ?
                                   document_get(child, "name") : NULL;
        g_autofree char *policy = feature ?
                                  document_get(child, "policy") : NULL;

        if (!g_strcmp0(feature, "lm")) {
            return g_strcmp0(policy, "disable") && g_strcmp0(policy, "forbid");
        }
    }
    return g_strcmp0(arch, "i686") && !(name && is_old_model(name));
}

/* KVM traces by a store of the CPU, which knows only page tables of 64 bits. */
static bool check_bits(xmlNode *root, GError **error)
{
    g_autofree char *type = document_get(root, "type");

    if (strcmp(type, "kvm") || is_64_bit(root)) {
        return true;
    }
    g_set_error(error, DOMAIN_ERROR, DOMAIN_ERROR_UNSUPPORTED,
                "this guest's CPU has no 64 bits, and KVM traces no other "
                "guests; --tcg has QEMU emulate it, which is slower");
    return false;
}

/* A path that libvirt, XML and QEMU's command line can all have */
static bool check_path(const char *path, const char *what, GError **error)
{
    const char *p;
    bool ok = *path == '/' && g_utf8_validate(path, -1, NULL);

    for (p = path; ok && *p; p = g_utf8_next_char(p)) {
        ok = g_unichar_isprint(g_utf8_get_char(p));
    }
    if (!ok || g_ascii_isspace(p[-1])) {
        g_set_error(error, DOMAIN_ERROR,
                    DOMAIN_ERROR_UNSUPPORTED,
                    "the path of the %s must begin with a slash and consist "
                    "of printable characters", what);
        return false;
    }
    return true;
}

/* A domain under TCG cannot have the host's CPU. */
static void set_tcg(xmlNode *root, xmlNode *record, GPtrArray *changes)
{
    g_autofree char *type = document_get(root, "type");
    xmlNode *cpu = find_element(root, "cpu");
    g_autofree char *mode = cpu ? document_get(cpu, "mode") : NULL;

    if (!strcmp(type, "qemu")) {
        return;
    }
    set_value(root, record, true, &places[SET_TYPE], "qemu", changes);
    if (!g_strcmp0(mode, "host-passthrough")) {
        set_value(root, record, true, &places[SET_CPU], "maximum", changes);
    }
}

bool tracing_enable(xmlDoc *doc,
                    const struct tracing_options *options,
                    GPtrArray **changes, GError **error)
{
    xmlNode *root = domain_root(doc, error), *record;
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(change_free);

    if (!root || !check_path(options->emulator, "emulator", error) ||
        (options->agent && !check_path(options->agent, "agent", error)) ||
        !tracing_disable(doc, NULL, error) ||
        !check_architecture(root, error)) {
        return false;
    }
    record = add_record(root);
    if (options->tcg) {
        set_tcg(root, record, list);
    }
    if (!check_bits(root, error)) {
        return false;
    }
    set_value(root, record, true, &places[SET_EMULATOR], options->emulator,
              list);
    set_value(root, record, true, &places[SET_SOURCE], "memfd", list);
    set_value(root, record, true, &places[SET_ACCESS], "shared", list);
    set_value(root, record, true, &places[SET_VMCOREINFO], "on", list);
    if (!add_device(root, record, options, list, error) ||
        (options->guest_names && options->agent &&
         !add_channel(root, record, options->agent, list, error))) {
        return false;
    }
    if (changes) {
        *changes = g_steal_pointer(&list);
    }
    return true;
}

/*
 * Undoing
 */

static bool bad_record(GError **error, const char *what)
{
    g_set_error(error, DOMAIN_ERROR, DOMAIN_ERROR_RECORD,
                "the note of backtrail enable in the domain's metadata is "
                "malformed (%s); correct it, or remove the element "
                "<domain xmlns=\"" TRACING_NAMESPACE "\"> there", what);
    return false;
}

static bool get_created(const xmlNode *note, unsigned max, unsigned *created)
{
    g_autofree char *text = document_get(note, "created");

    *created = text ? text[0] - '0' : 0;
    return !text || (text[0] >= '0' && *created <= max && !text[1]);
}

/* Removes added elements, the innermost first, unless they are used now. */
static void remove_created(xmlNode *root, xmlNode *node, unsigned created)
{
    while (created-- && node != root && document_is_blank(node)) {
        xmlNode *parent = node->parent;

        document_remove(node);
        node = parent;
    }
}

static const struct setting_place *find_setting(const char *element,
                                                const char *attribute)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        if (!g_strcmp0(places[i].element, element) &&
            !g_strcmp0(places[i].attribute, attribute)) {
            return &places[i];
        }
    }
    return NULL;
}

static bool undo_value(xmlNode *root, const xmlNode *note, GPtrArray *changes,
                       GError **error)
{
    g_autofree char *element = document_get(note, "element");
    g_autofree char *attribute = document_get(note, "attribute");
    g_autofree char *was = document_get(note, "was");
    g_autofree char *now = document_get(note, "now");
    g_autofree char *value = NULL;
    const struct setting_place *place = find_setting(element, attribute);
    unsigned created, max;
    xmlNode *node;

    if (!place || !now) {
        return bad_record(error, element ? element : "no element");
    }
    max = !strcmp(element, ".") ? 0 : strchr(element, '/') ? 2 : 1;
    if (!get_created(note, max, &created)) {
        return bad_record(error, element);
    }
    node = find_element(root, element);
    value = node ? value_of(node, attribute) : NULL;
    if (g_strcmp0(value, now)) {
        add_change(changes, element, attribute, now, value, true);
        return true;
    }
    if (attribute) {
        document_set(node, attribute, was);
    } else if (!document_set_inner(node, was)) {
        return bad_record(error, element);
    }
    remove_created(root, node, created);
    add_change(changes, element, attribute, now, was, false);
    return true;
}

static bool undo_device(xmlNode *root, const xmlNode *note,
                        GPtrArray *changes, GError **error)
{
    g_autofree char *now = document_get(note, "now");
    xmlNode *option, *value, *line;
    unsigned created;

    if (!now || !domain_device_is(now) || !get_created(note, 1, &created)) {
        return bad_record(error, "device");
    }
    value = domain_device_find(root, now, &option);
    add_change(changes, "qemu:commandline", NULL, now, NULL, !value);
    if (value) {
        line = value->parent;
        document_remove(value);
        document_remove(option);
        remove_created(root, line, created);
    }
    return true;
}

static bool undo_channel(xmlNode *root, const xmlNode *note,
                         GPtrArray *changes, GError **error)
{
    g_autofree char *now = document_get(note, "now");
    g_autofree char *has = NULL;
    xmlNode *devices = find_element(root, "devices");
    xmlNode *channel = names_channel_find(devices);
    unsigned created;

    if (!now || !get_created(note, 1, &created)) {
        return bad_record(error, "channel");
    }
    has = channel ? names_channel_path(channel) : NULL;
    add_change(changes, "devices/channel", NULL, now, NULL,
               g_strcmp0(has, now));
    if (!g_strcmp0(has, now)) {
        names_channel_remove(devices, channel, created);
    }
    return true;
}

static bool undo(xmlNode *root, xmlNode *record, GPtrArray *changes,
                 GError **error)
{
    xmlNode *note, *metadata = record->parent;
    unsigned created;

    if (!get_created(record, 1, &created)) {
        return bad_record(error, "domain");
    }
    /* In reverse: the first note has the elements that several share. */
    for (note = record->last; note; note = note->prev) {
        bool ok = true;

        if (note->type != XML_ELEMENT_NODE || !note->ns ||
            strcmp((const char *)note->ns->href, TRACING_NAMESPACE)) {
            continue;
        }
        if (!strcmp((const char *)note->name, "value")) {
            ok = undo_value(root, note, changes, error);
        } else if (!strcmp((const char *)note->name, "device")) {
            ok = undo_device(root, note, changes, error);
        } else if (!strcmp((const char *)note->name, "channel")) {
            ok = undo_channel(root, note, changes, error);
        } else {
            ok = bad_record(error, (const char *)note->name);
        }
        if (!ok) {
            return false;
        }
    }
    document_remove(record);
    remove_created(root, metadata, created);
    return true;
}

bool tracing_disable(xmlDoc *doc, GPtrArray **changes, GError **error)
{
    xmlNode *root = domain_root(doc, error), *record;
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(change_free);

    if (!root) {
        return false;
    }
    /* Others may have made more than one. */
    while ((record = find_record(root))) {
        if (!undo(root, record, list, error)) {
            return false;
        }
    }
    if (changes) {
        *changes = g_steal_pointer(&list);
    }
    return true;
}

/*
 * Checking
 */

static bool has_value(xmlNode *root, enum setting setting, const char *value)
{
    xmlNode *node = find_element(root, places[setting].element);
    g_autofree char *has = node ? value_of(node, places[setting].attribute) :
                           NULL;

    return !g_strcmp0(has, value);
}

/* Has one of these elements its own word for how it is shared, and "private"? */
static bool is_private(const xmlNode *parent, const char *element,
                       const char *attribute)
{
    for (xmlNode *node = parent ? parent->children : NULL; node;
         node = node->next) {
        g_autofree char *access = document_is(node, element, NULL) ?
                                  document_get(node, attribute) : NULL;

        if (!g_strcmp0(access, "private")) {
            return true;
        }
    }
    return false;
}

bool tracing_inspect(xmlDoc *doc, struct tracing_state *state,
                         GError **error)
{
    xmlNode *root = domain_root(doc, error), *emulator, *device, *option;

    memset(state, 0, sizeof(*state));
    if (!root) {
        return false;
    }
    emulator = find_element(root, places[SET_EMULATOR].element);
    state->emulator = emulator ? document_content(emulator) : NULL;
    device = domain_device_find(root, NULL, &option);
    if (device) {
        state->device = document_get(device, "value");
        state->agent = domain_device_agent(state->device);
        state->root_entry = domain_device_has_root_entry(state->device);
    }
    state->noted = find_record(root);
    state->kvm = has_value(root, SET_TYPE, "kvm");
    state->bits_64 = is_64_bit(root);
    state->shared = has_value(root, SET_ACCESS, "shared") &&
                    (has_value(root, SET_SOURCE, "memfd") ||
                     has_value(root, SET_SOURCE, "file"));
    state->partly = state->shared &&
                    (is_private(find_element(root, "devices"), "memory",
                                "access") ||
                     is_private(find_element(root, "cpu/numa"), "cell",
                                "memAccess"));
    state->vmcoreinfo = find_element(root, places[SET_VMCOREINFO].element) &&
                        !has_value(root, SET_VMCOREINFO, "off");
    state->panic = find_element(root, "devices/panic");
    state->guest_names = names_channel_find(find_element(root, "devices"));
    return true;
}

void tracing_state_clear(struct tracing_state *state)
{
    g_free(state->emulator);
    g_free(state->device);
    g_free(state->agent);
    memset(state, 0, sizeof(*state));
}
