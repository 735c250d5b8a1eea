package class

import "strings"

// QoS is a pod's Kubernetes quality of service, as the kubelet writes it into cgroup names.
type QoS string

const (
	Guaranteed QoS = "guaranteed"
	Burstable  QoS = "burstable"
	BestEffort QoS = "besteffort"
)

// Class maps a QoS to how carefully its pods are treated. Burstable counts as latency: requests below
// limits is how most online services are written, and only besteffort promises nobody is waiting.
func (q QoS) Class() Class {
	if q == BestEffort {
		return Throughput
	}
	return Latency
}

// KubePod is what a cgroup path says about Kubernetes. Fields are "" when the path does not go that deep.
// PodUID and ContainerID hold only letters, digits and dashes, so they are safe to print.
type KubePod struct {
	QoS         QoS
	PodUID      string // with dashes, also where systemd wrote underscores
	ContainerID string
	IsKubeRoot  bool // the path is the kubepods cgroup itself
}

// roots are the kubepods cgroups the kubelet makes: plain, and as kind and other nested setups put them
// below kubelet. A cgroup of this name anywhere else may have been made by anybody, so it is not trusted.
var roots = []string{"/kubepods", "/kubepods.slice", "/kubelet/kubepods", "/kubelet.slice/kubelet-kubepods.slice"}

// Kube reads a cgroup path of either driver (cgroupfs or systemd); v1 and v2 use the same names. ok is
// false outside the kubepods roots. Deeper cgroups, which a container made itself, keep its pod and
// container: the outermost names win, so a container cannot promote itself.
func Kube(path string) (k KubePod, ok bool) {
	path = clean(path)
	for _, root := range roots {
		if path == root {
			return KubePod{IsKubeRoot: true}, true
		}
		if rest, below := strings.CutPrefix(path, root+"/"); below {
			segments := strings.Split(rest, "/")
			if strings.HasSuffix(root, ".slice") {
				return systemd(root[strings.LastIndexByte(root, '/')+1:len(root)-len(".slice")], segments), true
			}
			return cgroupfs(segments), true
		}
	}
	return KubePod{}, false
}

// cgroupfs reads [burstable|besteffort/]pod<uid>/<container>/…
func cgroupfs(segments []string) (k KubePod) {
	if q := QoS(segments[0]); q == Burstable || q == BestEffort {
		k.QoS = q
		segments = segments[1:]
	}
	if len(segments) == 0 {
		return k
	}
	uid, ok := strings.CutPrefix(segments[0], "pod")
	if !ok || !isID(uid) {
		return k
	}
	return k.pod(uid, segments[1:])
}

// systemd reads [<root>-burstable.slice/]<root>[-burstable]-pod<uid>.slice/<container>.scope/…
func systemd(root string, segments []string) (k KubePod) {
	prefix := root
	for _, q := range []QoS{Burstable, BestEffort} {
		if name := root + "-" + string(q); segments[0] == name+".slice" {
			k.QoS, prefix, segments = q, name, segments[1:]
			break
		}
	}
	if len(segments) == 0 {
		return k
	}
	name, isPod := strings.CutPrefix(segments[0], prefix+"-pod")
	uid, isSlice := strings.CutSuffix(name, ".slice")
	uid = strings.ReplaceAll(uid, "_", "-")
	if !isPod || !isSlice || !isID(uid) {
		return k
	}
	return k.pod(uid, segments[1:])
}

// pod fills in the pod; one directly below the root is guaranteed, which has no directory of its own.
func (k KubePod) pod(uid string, below []string) KubePod {
	k.PodUID = uid
	if k.QoS == "" {
		k.QoS = Guaranteed
	}
	if len(below) > 0 {
		k.ContainerID = container(below[0])
	}
	return k
}

// container takes the id out of <id>, cri-containerd-<id>.scope, crio-<id>.scope, docker-<id>.scope,
// crio-<id> and libpod-<id>.scope. CRI-O's monitor (crio-conmon-<id>) is not a container.
func container(segment string) string {
	id := strings.TrimSuffix(segment, ".scope")
	for _, runtime := range []string{"cri-containerd-", "crio-", "docker-", "libpod-"} {
		if rest, ok := strings.CutPrefix(id, runtime); ok {
			id = rest
			break
		}
	}
	if !isHex(id) {
		return ""
	}
	return id
}

// isID accepts what the kubelet uses as a pod's uid: a UUID, or the hash of a static pod's manifest.
func isID(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// isHex accepts what runtimes use as a container's id.
func isHex(s string) bool {
	if len(s) < 12 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// DefaultRoots returns the kubepods cgroups among paths, in a fixed order: where Spillway acts when the
// configuration names no roots.
func DefaultRoots(paths []string) []string {
	have := make(map[string]bool, len(roots))
	for _, p := range paths {
		have[clean(p)] = true
	}
	var out []string
	for _, r := range roots {
		if have[r] {
			out = append(out, r)
		}
	}
	return out
}
