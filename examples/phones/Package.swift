// swift-tools-version:5.5
import PackageDescription

let package = Package(
    name: "Ecgfed",
    products: [.library(name: "Ecgfed", targets: ["Ecgfed"])],
    targets: [
        // c/ holds the exported sources, ecgfed_phone.* and module.modulemap
        .target(name: "CEcgfed", path: "c", publicHeadersPath: "."),
        .target(name: "Ecgfed", dependencies: ["CEcgfed"], path: "swift"),
    ]
)
