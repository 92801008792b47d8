/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The XML of a domain as it can be recorded and replayed: see replayable.h
 */

#include <string.h>

#include "libvirt/replayable.h"
#include "libvirt/tracing.h"
#include "util/parse.h"

#define DISK_BUS    "a disk with bus='virtio', or bus='ide' on a machine pc"

struct review {
    struct replayable *r;
    xmlNode *root;
    bool running;
    bool usb;                   /* a controller is kept */
    bool express;               /* the machine has PCI Express */
    unsigned interfaces;
};

static void G_GNUC_PRINTF(2, 3) note(GPtrArray *list, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_ptr_array_add(list, g_strdup_vprintf(format, args));
    va_end(args);
}

#define change(v, ...)  note((v)->r->changes, __VA_ARGS__)
#define refuse(v, ...)  note((v)->r->refusals, __VA_ARGS__)

/*
 * Changes what the guest sees of the machine, which a guest that runs has seen
 * already.
 */
static void G_GNUC_PRINTF(3, 4) replace(struct review *v, const char *how,
                                        const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    if (v->running) {
        refuse(v, "%s: it cannot be replayed, and a guest that runs keeps it; "
               "record the domain from when it is switched on", what);
    } else {
        change(v, "%s: %s", what, how);
    }
}

static bool is_one_of(const char *text, const char *const *list)
{
    return text && g_strv_contains(list, text);
}

static void remove_child(xmlNode *parent, const char *name)
{
    xmlNode *child;

    while ((child = document_child(parent, name, NULL))) {
        document_remove(child);
    }
}

static xmlNode *child_or_new(xmlNode *parent, const char *name)
{
    xmlNode *child = document_child(parent, name, NULL);

    return child ? child : document_add(parent, name, NULL, false);
}

/* An attribute of a child; NULL if there is no such child.  To be freed. */
static char *child_get(const xmlNode *parent, const char *name,
                       const char *attribute)
{
    const xmlNode *child = document_child(parent, name, NULL);

    return child ? document_get(child, attribute) : NULL;
}

/*
 * Devices: each function says what becomes of one
 */

typedef bool reviewer(struct review *v, xmlNode *node); /* false: remove it */

static bool keep(struct review *v, xmlNode *node)
{
    return true;
}

/* libvirt or QEMU has it again, or nobody misses it. */
static bool drop(struct review *v, xmlNode *node)
{
    return false;
}

static bool leave_out(struct review *v, xmlNode *node)
{
    g_autofree char *model = document_get(node, "model");
    g_autofree char *type = document_get(node, "type");
    const char *what = model ? model : type;

    if (g_strcmp0(what, "none")) {
        replace(v, "left out", "%s%s%s", (const char *)node->name,
                what ? " " : "", what ? what : "");
    }
    return false;
}

static bool refuse_device(struct review *v, xmlNode *node)
{
    g_autofree char *type = document_get(node, "type");

    refuse(v, "%s%s%s: what it does is not in QEMU's log; remove it from a "
           "copy of the domain", (const char *)node->name, type ? " " : "",
           type ? type : "");
    return true;
}

/* What it is called in messages, to be freed */
static char *disk_name(const xmlNode *node)
{
    g_autofree char *target = child_get(node, "target", "dev");
    g_autofree char *device = document_get(node, "device");

    return g_strdup_printf("%s %s", device ? device : "disk",
                           target ? target : "?");
}

static void set_driver(xmlNode *node)
{
    xmlNode *driver = document_child(node, "driver", NULL);
    g_autofree char *type = NULL;

    if (driver) {
        type = document_get(driver, "type");
        document_remove(driver);
    }
    if (type) {
        driver = document_add(node, "driver", NULL, false);
        document_set(driver, "name", "qemu");
        document_set(driver, "type", type);
    }
}

static bool review_disk(struct review *v, xmlNode *node)
{
    static const char *const types[] = { "file", "volume", NULL };
    static const char *const buses[] = { "virtio", "ide", NULL };
    static const char *const gone[] = {
        "iotune", "transient", "shareable", "throttlefilters", "mirror"
    };
    g_autofree char *name = disk_name(node);
    g_autofree char *type = document_get(node, "type");
    g_autofree char *device = document_get(node, "device");
    g_autofree char *bus = child_get(node, "target", "bus");
    xmlNode *source = document_child(node, "source", NULL);
    bool medium = source && !document_is_blank(source);

    if (!medium && !is_one_of(bus, buses)) {
        replace(v, "left out, since it has no medium", "%s", name);
        return false;
    }
    if (medium && !is_one_of(type, types)) {
        refuse(v, "%s: its medium is of type '%s'; use an image that is a "
               "file", name, type ? type : "");
    }
    if (!is_one_of(bus, buses)) {
        refuse(v, "%s: what bus '%s' does cannot be replayed; use " DISK_BUS,
               name, bus ? bus : "");
    }
    if (!g_strcmp0(device, "lun")) {
        refuse(v, "%s: commands go to hardware; use device='disk'", name);
    }
    if (document_child(node, "encryption", NULL) ||
        (source && document_child(source, "encryption", NULL))) {
        refuse(v, "%s: it is encrypted; use an image that is not", name);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(gone); i++) {
        remove_child(node, gone[i]);
    }
    set_driver(node);
    return true;
}

static bool review_controller(struct review *v, xmlNode *node)
{
    static const char *const kept[] = { "pci", "ide", "sata", NULL };
    g_autofree char *type = document_get(node, "type");
    g_autofree char *model = document_get(node, "model");

    if (is_one_of(type, kept)) {
        return true;
    }
    if (v->running && !g_strcmp0(type, "usb") &&
        !g_strcmp0(model, "qemu-xhci")) {
        v->usb = true;
        return true;
    }
    /* All that is on it is left out or refused, too. */
    if (!v->running || g_strcmp0(model, "none")) {
        replace(v, "left out", "controller %s", type ? type : "");
    }
    return false;
}

/* Numbers are libvirt's own; a domain from anywhere has been through it. */
static bool address_number(const xmlNode *address, const char *name,
                           uint64_t *value)
{
    g_autofree char *text = document_get(address, name);

    return text && parse_text_number(text, NULL, value) && *value < 256;
}

/* ",bus=pci.1,addr=0x2.0x3" as libvirt writes it; NULL if there is none */
static char *pci_address(const struct review *v, const xmlNode *node)
{
    const xmlNode *address = document_child(node, "address", NULL);
    g_autofree char *type = address ? document_get(address, "type") :
                            NULL;
    g_autofree char *many = NULL;
    uint64_t bus, slot, function;

    if (g_strcmp0(type, "pci") || !address_number(address, "bus", &bus) ||
        !address_number(address, "slot", &slot) ||
        !address_number(address, "function", &function)) {
        return NULL;
    }
    many = document_get(address, "multifunction");
    return g_strdup_printf(",bus=%s.%u,addr=0x%x.0x%x%s",
                           v->express && !bus ? "pcie" : "pci", (unsigned)bus,
                           (unsigned)slot, (unsigned)function,
                           g_strcmp0(many, "on") ? "" : ",multifunction=on");
}

static const char *network_device(const char *model)
{
    static const char *const known[][2] = {
        { "virtio", "virtio-net-pci" },
        { "virtio-transitional", "virtio-net-pci-transitional" },
        { "virtio-non-transitional", "virtio-net-pci-non-transitional" },
        { "e1000", "e1000" },
        { "e1000e", "e1000e" },
        { "rtl8139", "rtl8139" },
    };

    for (unsigned i = 0; model && i < G_N_ELEMENTS(known); i++) {
        if (!strcmp(model, known[i][0])) {
            return known[i][1];
        }
    }
    return NULL;
}

static bool is_mac(const char *text)
{
    return text && strlen(text) == 17 &&
           strspn(text, "0123456789abcdefABCDEF:") == 17;
}

static void add_interface(struct review *v, const xmlNode *node,
                          const char *device, const char *mac,
                          const char *address)
{
    g_autofree char *type = document_get(node, "type");
    g_autofree char *link = child_get(node, "link", "state");
    g_autofree char *rom = child_get(node, "rom", "enabled");
    g_autofree char *order = child_get(node, "boot", "order");
    GPtrArray *arguments = v->r->arguments;
    uint64_t n;

    g_ptr_array_add(arguments, g_strdup("-netdev"));
    if (v->running && g_strcmp0(type, "user")) {
        note(arguments, "null,id=network%u", v->interfaces);
    } else {
        note(arguments, "user,id=network%u%s", v->interfaces,
             v->running || !g_strcmp0(link, "down") ? ",restrict=on" : "");
    }
    g_ptr_array_add(arguments, g_strdup("-device"));
    if (!order || !parse_text_number(order, NULL, &n) || n > 1000) {
        n = 0;
    }
    g_free(order);
    order = n ? g_strdup_printf(",bootindex=%u", (unsigned)n) :
            g_strdup("");
    note(arguments, "%s,netdev=network%u,mac=%s%s%s%s", device,
         v->interfaces++, mac, address, order,
         g_strcmp0(rom, "no") ? "" : ",romfile=");
}

/* Of a guest that runs */
static void review_network(struct review *v, const xmlNode *node,
                           const char *mac)
{
    change(v, "interface %s: cut off, since the guest itself continues to use "
           "its network", mac);
    /* They are a part of what the device has reported to the guest. */
    if (document_child(node, "driver", NULL) ||
        document_child(node, "mtu", NULL)) {
        refuse(v,
               "interface %s: what <driver> and <mtu> say of it, a recording "
               "that begins with a guest that runs does not know; record the "
               "domain from when it is switched on", mac);
    }
}

static bool review_interface(struct review *v, xmlNode *node)
{
    static const char *const outside[] = {
        "hostdev", "vhostuser", "vdpa", NULL
    };
    g_autofree char *type = document_get(node, "type");
    g_autofree char *model = child_get(node, "model", "type");
    g_autofree char *mac = child_get(node, "mac", "address");
    g_autofree char *address = pci_address(v, node);
    const char *device = network_device(model);

    if (is_one_of(type, outside)) {
        refuse(v, "interface %s: what comes from type '%s' is not in QEMU's "
               "log; use type='network'", mac ? mac : "", type);
    } else if (!device || !is_mac(mac) || !address) {
        refuse(v, "interface %s: a recording knows no model '%s' with this "
               "address; use model virtio", mac ? mac : "",
               model ? model : "");
    } else {
        if (v->running) {
            review_network(v, node, mac);
        } else if (g_strcmp0(type, "user")) {
            change(v, "interface %s: on a network of QEMU's own instead of "
                   "type '%s'; the guest gets its address by DHCP and reaches "
                   "what the host reaches, and nothing reaches the guest", mac,
                   type ? type : "");
        }
        add_interface(v, node, device, mac, address);
    }
    return false;
}

/* The first port that a terminal would be at is at our terminal. */
static bool review_serial(struct review *v, xmlNode *node)
{
    static const char *const kept[] = { "file", "null", "stdio", NULL };
    g_autofree char *type = document_get(node, "type");
    g_autofree char *target = child_get(node, "target", "type");
    g_autofree char *port = child_get(node, "target", "port");

    if (target && strcmp(target, "isa-serial")) {
        replace(v, "left out, since only ISA ports are in QEMU's log",
                "serial %s", target);
        return false;
    }
    remove_child(node, "protocol");
    if (is_one_of(type, kept)) {
        return true;
    }
    remove_child(node, "source");
    if (!g_strcmp0(type, "pty") && (!port || !strcmp(port, "0"))) {
        document_set(node, "type", "stdio");
        return true;
    }
    change(v, "serial port %s of type '%s': nothing is connected to it",
           port ? port : "0", type ? type : "");
    document_set(node, "type", "null");
    return true;
}

static bool review_console(struct review *v, xmlNode *node)
{
    g_autofree char *target = child_get(node, "target", "type");

    if (target && strcmp(target, "serial")) {
        replace(v, "left out; use the serial port", "console %s", target);
    }
    /* libvirt makes one of the first serial port. */
    return false;
}

static bool review_channel(struct review *v, xmlNode *node)
{
    g_autofree char *name = child_get(node, "target", "name");

    replace(v, "left out; programs outside do not get to the guest",
            "channel %s", name ? name : "");
    return false;
}

static bool review_input(struct review *v, xmlNode *node)
{
    g_autofree char *bus = document_get(node, "bus");

    /* Every machine has those. */
    return !g_strcmp0(bus, "ps2") || (v->usb && !g_strcmp0(bus, "usb")) ||
           leave_out(v, node);
}

static bool review_graphics(struct review *v, xmlNode *node)
{
    g_autofree char *type = document_get(node, "type");

    change(v, "graphics %s: left out; the screen is not seen while the guest "
           "is recorded", type ? type : "");
    return false;
}

static bool review_video(struct review *v, xmlNode *node)
{
    static const char *const kept[] = { "vga", "cirrus", "bochs", "none",
                                        NULL };
    xmlNode *model = document_child(node, "model", NULL);
    g_autofree char *type = model ? document_get(model, "type") : NULL;

    if (is_one_of(type, kept)) {
        return true;
    }
    replace(v, "vga instead", "video %s", type ? type : "");
    if (model) {
        document_remove(model);
    }
    remove_child(node, "driver");
    model = document_add(node, "model", NULL, false);
    document_set(model, "type", "vga");
    return true;
}

static bool review_rng(struct review *v, xmlNode *node)
{
    xmlNode *backend = document_child(node, "backend", NULL);

    if (backend) {
        document_remove(backend);
    }
    backend = document_add(node, "backend", NULL, false);
    document_set(backend, "model", "builtin");
    remove_child(node, "driver");
    remove_child(node, "rate");
    return true;
}

static bool review_watchdog(struct review *v, xmlNode *node)
{
    g_autofree char *model = document_get(node, "model");

    if (!v->running || g_strcmp0(model, "itco")) {
        return leave_out(v, node);
    }
    /* It is in the chipset; what it does besides is libvirt's. */
    g_ptr_array_add(v->r->arguments, g_strdup("-global"));
    g_ptr_array_add(v->r->arguments, g_strdup("ICH9-LPC.noreboot=off"));
    return false;
}

static const struct {
    const char *name;
    reviewer *review;
} devices[] = {
    { "emulator", keep },
    { "disk", review_disk },
    { "controller", review_controller },
    { "interface", review_interface },
    { "serial", review_serial },
    { "console", review_console },
    { "channel", review_channel },
    { "input", review_input },
    { "graphics", review_graphics },
    { "video", review_video },
    { "rng", review_rng },
    { "panic", keep },
    { "audio", drop },
    { "sound", leave_out },
    { "memballoon", leave_out },
    { "watchdog", review_watchdog },
    { "parallel", leave_out },
    { "redirdev", leave_out },
    { "redirfilter", drop },
    { "smartcard", leave_out },
    { "hub", leave_out },
};

static void review_device(struct review *v, xmlNode *node)
{
    reviewer *review = refuse_device;

    for (unsigned i = 0; i < G_N_ELEMENTS(devices); i++) {
        if (!strcmp((const char *)node->name, devices[i].name)) {
            review = devices[i].review;
        }
    }
    if (!review(v, node)) {
        document_remove(node);
    }
}

static void review_devices(struct review *v)
{
    xmlNode *list = child_or_new(v->root, "devices"), *node, *next;

    for (node = xmlFirstElementChild(list); node; node = next) {
        next = xmlNextElementSibling(node);
        review_device(v, node);
    }
    /* libvirt adds these unless it is said that there are none. */
    if (!v->usb) {
        node = document_add(list, "controller", NULL, false);
        document_set(node, "type", "usb");
        document_set(node, "model", "none");
    }
    node = document_add(list, "memballoon", NULL, false);
    document_set(node, "model", "none");
}

/*
 * The machine
 */

static void review_cpus(struct review *v)
{
    xmlNode *vcpu = child_or_new(v->root, "vcpu");
    g_autofree char *number = document_content(vcpu);
    g_autofree char *current = document_get(vcpu, "current");
    const char *count = current ? current : *number ? number : "1";

    if (strcmp(count, number) && *number) {
        g_autofree char *how = g_strdup_printf(
            "%s, since none can be plugged in later", count);

        replace(v, how, "%s vCPUs", number);
    }
    document_remove(vcpu);
    vcpu = document_add(v->root, "vcpu", NULL, false);
    document_set_inner(vcpu, count);
}

/* What a CPU has that is not QEMU's own */
static void review_cpu(struct review *v)
{
    xmlNode *cpu = document_child(v->root, "cpu", NULL);
    g_autofree char *mode = cpu ? document_get(cpu, "mode") : NULL;

    if (!cpu) {
        return;
    }
    if (g_str_has_prefix(mode ? mode : "", "host-")) {
        replace(v, "all that QEMU can emulate instead", "cpu %s", mode);
        document_remove(cpu);
        cpu = document_add(v->root, "cpu", NULL, false);
        document_set(cpu, "mode", "maximum");
        return;
    }
    if (!v->running) {
        remove_child(cpu, "topology");
        remove_child(cpu, "cache");
    }
    if (document_child(cpu, "numa", NULL)) {
        replace(v, "one node instead", "cpu numa");
        remove_child(cpu, "numa");
    }
}

static void review_memory(struct review *v)
{
    xmlNode *node;

    if (document_child(v->root, "maxMemory", NULL)) {
        replace(v, "no memory can be plugged in", "maxMemory");
    }
    remove_child(v->root, "maxMemory");
    remove_child(v->root, "currentMemory");
    remove_child(v->root, "memoryBacking");
    /* The trace's names are found in memory that QEMU shares. */
    node = document_add(v->root, "memoryBacking", NULL, false);
    document_set(document_add(node, "source", NULL, true),
                 "type", "memfd");
    document_set(document_add(node, "access", NULL, true),
                 "mode", "shared");
}

static void review_features(struct review *v)
{
    static const char *const gone[] = { "hyperv", "kvm", "pmu", "ioapic" };
    xmlNode *features = document_child(v->root, "features", NULL);

    for (unsigned i = 0; features && !v->running && i < G_N_ELEMENTS(gone);
         i++) {
        if (i < 2 && document_child(features, gone[i], NULL)) {
            change(v, "features %s: left out, since only KVM has them",
                   gone[i]);
        }
        remove_child(features, gone[i]);
    }
}

static void review_clock(struct review *v)
{
    xmlNode *clock = document_child(v->root, "clock", NULL);
    xmlNode *node, *next;

    if (!clock) {
        return;
    }
    for (node = xmlFirstElementChild(clock); node; node = next) {
        g_autofree char *name = document_get(node, "name");

        next = xmlNextElementSibling(node);
        /*
         * The one of hpet says whether there is one; others say how a timer
         * catches up with the host, which nothing in a replay does.
         */
        if (g_strcmp0(name, "hpet")) {
            document_remove(node);
        }
    }
}

static void review_firmware(struct review *v)
{
    xmlNode *os = document_child(v->root, "os", NULL);
    g_autofree char *firmware = os ? document_get(os, "firmware") :
                                NULL;

    if (os && (firmware || document_child(os, "loader", NULL) ||
               document_child(os, "nvram", NULL))) {
        refuse(v, "os: firmware of its own, such as UEFI, has not been shown "
               "to replay; use a domain that boots by BIOS or has a <kernel>");
    }
}

/* libvirt says these to a QEMU that runs. */
static void review_reboot(struct review *v)
{
    xmlNode *node = document_child(v->root, "on_reboot", NULL);
    g_autofree char *what = node ? document_content(node) : NULL;

    if (what && strcmp(what, "restart")) {
        g_ptr_array_add(v->r->arguments, g_strdup("-no-reboot"));
    }
}

static void review_machine(struct review *v)
{
    /* Limits of the host, which the guest does not see */
    static const char *const gone[] = {
        "vcpus", "iothreads", "iothreadids", "defaultiothread", "cputune",
        "numatune", "resource", "memtune", "blkiotune", "seclabel", "perf",
        "metadata", "idmap"
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(gone); i++) {
        remove_child(v->root, gone[i]);
    }
    if (document_child(v->root, "launchSecurity", NULL)) {
        refuse(v, "launchSecurity: what is encrypted cannot be recorded; "
               "remove it from a copy of the domain");
    }
    review_firmware(v);
    review_cpus(v);
    review_cpu(v);
    review_memory(v);
    review_features(v);
    review_clock(v);
    review_reboot(v);
}

static bool review_type(struct review *v, GError **error)
{
    xmlNode *os = document_child(v->root, "os", NULL);
    g_autofree char *what = document_get(v->root, "type");
    g_autofree char *arch = os ? child_get(os, "type", "arch") : NULL;
    g_autofree char *machine = os ? child_get(os, "type", "machine") : NULL;

    if ((g_strcmp0(what, "kvm") && g_strcmp0(what, "qemu")) ||
        (arch && strcmp(arch, "x86_64") && strcmp(arch, "i686"))) {
        g_set_error(error, DOMAIN_ERROR,
                    DOMAIN_ERROR_UNSUPPORTED,
                    "a domain of type '%s' for %s; only x86_64 and i686 under "
                    "QEMU can be recorded", what ? what : "",
                    arch ? arch : "an unknown machine");
        return false;
    }
    if (!strcmp(what, "kvm")) {
        replace(v, "QEMU's own emulation (TCG) instead, which is slower",
                "domain type kvm");
        document_set(v->root, "type", "qemu");
    }
    v->express = machine && strstr(machine, "q35");
    return true;
}

bool replayable_make(xmlDoc *doc, bool running,
                     struct replayable *r, GError **error)
{
    struct review v = {
        .r = r,
        .root = xmlDocGetRootElement(doc),
        .running = running,
    };

    *r = (struct replayable) {
        g_ptr_array_new_with_free_func(g_free),
        g_ptr_array_new_with_free_func(g_free),
        g_ptr_array_new_with_free_func(g_free),
    };
    /*
     * A domain that can be traced has the device that a replay gets, and has it
     * if it runs.
     */
    if ((!running && !tracing_disable(doc, NULL, error)) ||
        !review_type(&v, error)) {
        replayable_clear(r);
        return false;
    }
    review_machine(&v);
    review_devices(&v);
    return true;
}

void replayable_clear(struct replayable *r)
{
    g_clear_pointer(&r->changes, g_ptr_array_unref);
    g_clear_pointer(&r->refusals, g_ptr_array_unref);
    g_clear_pointer(&r->arguments, g_ptr_array_unref);
}
